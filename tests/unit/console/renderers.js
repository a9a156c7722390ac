// Runs inside the page of test_viewer_renderers.py, after the viewer's own scripts; what it found stands in the body.
const found = { checked: 0, wrong: [] };
const isTrue = (name, fact, shown = "") => { found.checked += 1; if (!fact) found.wrong.push(`${name} ${shown}`.slice(0, 900)); };
const isSame = (name, got, want) => isTrue(name, got === want, `\n  got  ${got}\n  want ${want}`);
const box = (...nodes) => make("div", "", nodes);
const html = (...nodes) => [...box(...nodes).childNodes].map((node) => node.outerHTML ?? node.data.replaceAll("&", "&amp;").replaceAll("<", "&lt;")).join("").replaceAll(' xmlns="http://www.w3.org/1998/Math/MathML"', "");
const said = (...nodes) => box(...nodes).textContent;
const md = (text) => html(markdownNodes(text));
const has = (name, node, selector, count = 1) => { const there = node.querySelectorAll(selector).length; isTrue(name, there === count, `${there} of ${selector}: ${node.outerHTML}`); };

function checkMarkdown() {
  isSame("heading", md("## A *b*"), '<h4 class="md-heading">A <em>b</em></h4>');
  isSame("emphasis", md("**a** __b__ *c* _d_ ~~e~~ ***f***"), "<p><strong>a</strong> <strong>b</strong> <em>c</em> <em>d</em> <s>e</s> <strong><em>f</em></strong></p>");
  isSame("no emphasis within words or around blanks", md("snake_case_name 2 * 3 * 4 a*"), "<p>snake_case_name 2 * 3 * 4 a*</p>");
  isSame("code keeps its marks", md("`a*b*` ``c`d``"), "<p><code>a*b*</code> <code>c`d</code></p>");
  isSame("line breaks stay", md("a\nb\n\nc"), "<p>a\nb</p><p>c</p>");
  isSame("rule", md("a\n\n---\nb"), "<p>a</p><hr><p>b</p>");
  const list = box(markdownNodes("1. a\n   - b\n   - c\n2. d\n\n   e\n\n- [x] f"));
  has("ordered items", list, "ol > li", 2);
  has("nested items", list, "ol > li > ul > li", 2);
  has("a paragraph of an item", list, "ol > li > p", 1);
  has("a task", list, "ul > li.task", 1);
  isSame("a list starts where it says", box(markdownNodes("4. a\n5. b")).querySelector("ol").start, 4);
  const table = box(markdownNodes("| a | b |\n|:-:|--:|\n| `x|y` | 2\\|3 |\n| c |"));
  has("rows", table, "tbody tr", 2);
  isSame("cells", [...table.querySelectorAll("td")].map((one) => one.textContent).join(";"), "x|y;2|3;c");
  has("sides", table, "td.right", 1);
  const quote = box(markdownNodes("> a\n> > b\n\nc"));
  has("quotes", quote, "blockquote blockquote", 1);
  isSame("a link is a text and an address", md("[a](https://x.example/y \"t\")"), '<p><span class="link">a <span class="address">https://x.example/y</span></span></p>');
  isSame("HTML stays text", md("<b>a</b> <script>x</script>"), "<p>&lt;b>a&lt;/b> &lt;script>x&lt;/script></p>".replaceAll(">x", "&gt;x").replaceAll("b>", "b&gt;").replaceAll("t></p>", "t&gt;</p>").replaceAll("script>x", "script&gt;x"));
  has("no image is fetched", box(markdownNodes("![a](https://x.example/y.png) ![b](javascript:alert(1)) ![c](data:image/svg+xml;base64,AAAA)")), "img", 0);
  has("an image that came along", box(markdownNodes("![a](data:image/png;base64,AAAA)")), "img.part", 1);
  const code = box(markdownNodes("```python\nx = 1\n```\n\n~~~\nplain\n~~~\n\n```\nnot closed\n  a"));
  has("fences", code, "pre.code", 3);
  isSame("code is not changed", code.querySelectorAll("pre")[2].textContent, "not closed\n  a");
  has("a fence with a patch", box(markdownNodes("```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n```")), ".diff .line.add", 1);
  for (const text of ["*".repeat(60000), "[".repeat(60000), "`".repeat(9999), "> ".repeat(5000), "$".repeat(20001), "- ".repeat(3000), `${"|a".repeat(5000)}\n${"|-".repeat(5000)}`, "\\(".repeat(9000), "_a ".repeat(6000), "![](".repeat(5000), "\n".repeat(90000), " - a\n".repeat(4000)]) {
    isTrue(`text survives: ${text.slice(0, 8)}`, said(markdownNodes(text)).length >= 0);
  }
}

function checkMaths() {
  const math = (text, display) => { const node = mathsNode(text, display); return node ? html(node.childNodes[0]) : null; };
  isSame("fraction", math("\\frac{a}{2}"), "<mfrac><mi>a</mi><mn>2</mn></mfrac>");
  isSame("digits as arguments", math("\\frac14"), "<mfrac><mn>1</mn><mn>4</mn></mfrac>");
  isSame("scripts", math("x_i^{2}"), "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>");
  isSame("a power of one digit", math("x^10"), "<mrow><msup><mi>x</mi><mn>1</mn></msup><mn>0</mn></mrow>");
  isSame("roots", math("\\sqrt[3]{x}\\sqrt y"), "<mrow><mroot><mi>x</mi><mn>3</mn></mroot><msqrt><mi>y</mi></msqrt></mrow>");
  isSame("Greek", math("\\alpha\\Omega"), "<mrow><mi>α</mi><mi>Ω</mi></mrow>");
  isSame("a sum in a line", math("\\sum_{i}^n"), "<msubsup><mo>∑</mo><mi>i</mi><mi>n</mi></msubsup>");
  isSame("a sum on its own", math("\\sum_{i}^n", true), "<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover>");
  isSame("boxed", math("\\boxed{42}"), '<mrow class="boxed"><mn>42</mn></mrow>');
  isSame("text", math("\\text{if } x"), "<mrow><mtext>if </mtext><mi>x</mi></mrow>");
  isSame("fences that grow", mathsNode("\\left( \\frac12 \\right]").querySelectorAll("mo[stretchy=true]").length, 2);
  isSame("an invisible fence", math("\\left. x \\right|").match(/<mo/g).length, 1);
  isSame("matrix", mathsNode("\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}").querySelectorAll("mtr").length * 10 + mathsNode("\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}").querySelectorAll("mtd").length, 24);
  isSame("cases", mathsNode("\\begin{cases} 1 & x>0 \\\\ 0 & \\text{else} \\end{cases}").querySelectorAll("mtd").length, 4);
  isSame("lines of an alignment", mathsNode("\\begin{align*} a &= b \\\\ &= c \\\\ \\end{align*}").querySelectorAll("mtr").length, 2);
  isSame("a command that is not known stays", said(mathsNode("\\frobnicate x")), "\\frobnicatex");
  isSame("double-struck", said(mathsNode("\\mathbb{R}^n")), "ℝn");
  for (const broken of ["\\frac{1}", "{a", "a}", "x^", "x^1^2", "\\left( x", "\\begin{nothing} x \\end{nothing}", "\\begin{matrix} 1", "\\sqrt", " ", "{".repeat(5000), "x".repeat(9000), "\\left"]) isSame(`not maths: ${broken.slice(0, 20)}`, mathsNode(broken), null);
  isSame("what cannot be read stays as its source", said(markdownNodes("so $\\frac{1}$ it")), "so $\\frac{1}$ it");
  isSame("prices are not maths", box(markdownNodes("It costs $5 and not $10.")).querySelectorAll("math").length, 0);
  for (const text of ["$x$", "$$x$$", "\\(x\\)", "\\[x\\]", "so \\boxed{\\frac12}.", "$$\nx\n$$", "\\begin{align}x\\end{align}", "**$x$**", "| $x$ |\n|---|"]) has(`maths in ${text}`, box(markdownNodes(text)), "math");
}

function checkCode() {
  const kinds = (text, language) => [...box(highlightCode(text, language)).querySelectorAll("span")].map((one) => `${one.className.slice(3)}:${one.textContent}`).join(" ");
  isSame("python", kinds('def f(x):  # c\n  return "a#b" + 1', "py"), 'keyword:def defined:f comment:# c keyword:return string:"a#b" number:1');
  isSame("a long string", kinds('x = """a\nb"""', "python"), 'string:"""a\nb"""');
  isSame("json", kinds('{"a": [1, true, "b"]}', "json"), 'defined:"a" number:1 constant:true string:"b"');
  isSame("shell", kinds("ls -la $HOME 'a b' # c", "bash"), "constant:-la special:$HOME string:'a b' comment:# c");
  isSame("javascript", kinds("const a = `b${1}`; // c", "js"), "keyword:const string:`b${1}` comment:// c");
  for (const language of ["python", "json", "shell", "js", "sql", "nothing", "constructor", "__proto__", ""]) {
    const text = 'def "a\\" \'b\n """ ` /* -- # $x ${ 1e5 <script>';
    isSame(`no character is lost: ${language}`, said(highlightCode(text, language)), text);
  }
  isSame("a guess", [guessLanguage('{"a": 1}'), guessLanguage("import os\n"), guessLanguage("#!/bin/bash\nx"), guessLanguage("Hello there.")].join(), "json,python,shell,");
}

const PATCH = "diff --git a/m.py b/m.py\nindex 1..2 100644\n--- a/m.py\n+++ b/m.py\n@@ -3,4 +3,4 @@ def f():\n same\n-    return one\n--- not a header\n+    return two\n+++ nor this\n last\ndiff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n";

function checkDiffs() {
  const diff = diffBlock(PATCH);
  has("files", diff, "details", 2);
  has("added", diff, ".line.add", 3);
  has("removed, one of them like a header", diff, ".line.del", 2);
  isSame("names and counts", [...diff.querySelectorAll("summary")].map((one) => one.textContent).join(" "), "m.py +2 −2 n +1 −0");
  isSame("line numbers", [...diff.querySelectorAll(".line.add")].map((one) => one.dataset.after).join(), "4,5,1");
  isSame("what changed within a line", diff.querySelector(".line.add mark").textContent, "two");
  isTrue("recognised", looksLikeDiff(PATCH) && looksLikeDiff("*** Begin Patch\n*** Update File: a\n") && !looksLikeDiff("- a list\n- of things\n+ more"));
  has("apply_patch", diffBlock("*** Begin Patch\n*** Update File: a.py\n@@\n a\n-b\n+c\n*** End Patch"), ".line.add");
  const edit = changeBlock("a\nb\nc", "a\nx\nc\nd");
  isSame("an edit", [...edit.querySelectorAll(".line")].map((one) => `${one.className[5]}${one.textContent}`).join(" "), "sa db ax sc ad");
  isTrue("a long edit", changeBlock("a\n".repeat(2000), "b\n".repeat(2000)).querySelectorAll(".line").length > 1000);
  isTrue("a text with a patch in a fence is a text", !looksLikeDiff(`So:\n\n\`\`\`diff\n${PATCH}\`\`\`\n`) && looksLikeDiff(`${PATCH}+\`\`\`\n`));
  for (const text of ["@@ -1,99999 +1,99999 @@\n a", "--- a\n+++ b", "diff --git ", "@@", ""]) isTrue("broken patches survive", Boolean(diffBlock(text)));
}

function checkTerminals() {
  isSame("colours", html(ansiNodes("\x1b[1;31mred\x1b[0m plain")), '<span class="ansi-1 ansi-bold">red</span> plain');
  isSame("256 and true colours", html(ansiNodes("\x1b[38;5;196ma\x1b[48;2;1;2;300mb")), '<span style="color: rgb(255, 0, 0);">a</span><span style="color: rgb(255, 0, 0); background-color: rgb(1, 2, 255);">b</span>');
  isSame("other sequences are left out", said(ansiNodes("\x1b[2K\x1b[1;1Ha\x1b]0;title\x07b\x1b]8;;https://x.example\x1b\\c\x1b(B")), "abc");
  isSame("overwritten lines", said(ansiNodes("10 %\r50 %\r100 %\ndone\r\n")), "100 %\ndone\n");
  isSame("backspaces", said(ansiNodes("abc\b\bd")), "ad");
  isSame("a sequence that is cut off", said(ansiNodes("a\x1b[31")), "a\\x1b[31");
  isTrue("many sequences", said(ansiNodes("\x1b[31m".repeat(20000))).length === 0);
}

function checkSigns() {
  isSame("control characters", said(signs("a\u0000b\u007fc\u009bd")), "a\\x00b\\x7fc[U+009B]d");
  isSame("characters that turn the text", said(signs("a\u202eb\u2066c")), "a[RLO]b[LRI]c");
  isSame("hidden tags", said(signs("a\u{e0041}b")), "a[tag A]b");
  isSame("halves of a character", said(signs("\ud800a\udc00")), "[U+D800]a[U+DC00]");
  isSame("what a reader sees stays", said(signs("a\tb\nc é 日本 👩‍💻 مرحبا\r\n")), "a\tb\nc é 日本 👩‍💻 مرحبا\r\n");
  isTrue("binary", isBinary("\u0000\u0001\ufffd".repeat(99)) && !isBinary("a text\n".repeat(99)) && !isBinary("\x1b[31mred\x1b[0m".repeat(40)));
}

function checkConversation() {
  const call = (id, name, given, output) => [{ type: "function_call", call_id: id, name, arguments: JSON.stringify(given) }, { type: "function_call_output", call_id: id, output }];
  const items = [...call("1", "bash", { command: "ls | wc" }, '"no such file\\n\\n[exit code 2]"'), ...call("2", "ask", { task: "t" }, "an answer"), { type: "reasoning", summary: [{ text: "hm" }] }, { role: "assistant", content: "<think>deep</think>It is $x$." }];
  const node = conversationBlock(items, { depth: 0, stepRewards: [0.5, 1], agentCalls: [{ call_id: "2", agent: "sub", response: { output: [{ role: "assistant", content: "nested answer" }] } }] });
  has("a call stands beside its result", node, ".call", 2);
  isSame("its exit code", node.querySelector(".chip.bad.exit").textContent, "exit 2");
  has("a command in colours", node, "pre.code");
  node.querySelectorAll("details").forEach((one) => { one.open = true; one.dispatchEvent(new Event("toggle")); });
  isSame("an agent's answer is rendered", box(callBlock({ call_id: "2", name: "ask" }, { output: "**so**\n\n```diff\n@@ -1 +1 @@\n-a\n+b\n```" }, { agentCalls: [{ call_id: "2", agent: "sub" }] })).querySelectorAll(".call > div > .prose strong, .call > div > .prose .diff .line.add").length, 2);
  checkTimes(items);
  isTrue("the conversation of a sub-agent", node.querySelector(".nested").textContent.includes("nested answer"));
  isTrue("reasoning unfolds", node.textContent.includes("hm") && node.textContent.includes("deep"));
  has("the answer is rendered", node, ".assistant > .prose math");
  isSame("rewards of turns", [...conversationBlock([{ role: "assistant", content: "a" }, { role: "user", content: "b" }, { role: "assistant", content: "c" }], { stepRewards: [0, 1] }).querySelectorAll(".step-reward")].map((one) => one.textContent).join(), "step reward 0,step reward 1");
  for (const [text, code] of [["x\n[exit code 0]", 0], ['{"output": "", "returncode": 137}', 137], ["<returncode>1</returncode><output>", 1], ["Exit code: 3", 3], ["no code 5", null]]) isSame(`exit code of ${text}`, exitOf({ output: text }), code);
  const edit = callBlock({ name: "edit", arguments: JSON.stringify({ path: "a.py", old_str: "a", new_str: "b" }) }, null, {});
  has("an edit is a diff", edit, ".diff .line", 2);
  const shaded = shadedTokens(tokensOfPart({ logprobs: [{ token: "a", logprob: -0.1 }, { token: "b", logprob: -5 }] }));
  isSame("shades", [...shaded.childNodes].map((one) => one.style.getPropertyValue("--unlikely")).join(), "0.095,0.993");
  const one = stepsOf(items, {}), other = stepsOf([...items.slice(0, 4), { type: "reasoning", id: "another", summary: [{ text: "hm" }] }, { role: "assistant", content: "It is y." }], {});
  isSame("where two part", firstDivergence(one, other), 3);
  isSame("one that goes on", firstDivergence(one, one.slice(0, 2)), 2);
  const many = stepList(stepsOf(Array.from({ length: 10000 }, (_, index) => ({ role: "assistant", content: `answer ${index}` })), {}), "step");
  isTrue("ten thousand steps are not made at once", many.node.querySelectorAll(".step").length <= 80, many.node.querySelectorAll(".step").length);
  document.body.append(many.node);
  isTrue("each can be brought to the screen", many.reveal(9876).textContent.includes("answer 9876"));
  many.node.remove();
  const hops = box(hopsBlock({ seconds: 0.163, hops: { seed: 5, model: 20 } }));
  isSame("the rest of the time", hops.querySelector(".hops .rest").title, "the rest 138\u00a0ms (85 %)");
  isTrue("side by side", hopsBlock({ seconds: 0.01, hops: { a: 9, b: 9 } })[2].textContent.includes("side by side"));
}

function checkTimes(items) {
  const all = [["model", 294.2, 40, 176], ["tools", 57.1], ["model", 30], ["agents", 1234], ["model", 20]];
  const shown = (stepTimes) => [...conversationBlock(items, { stepTimes }).querySelectorAll(".who small")].map((one) => one.textContent.replaceAll("\u00a0", " ")).join("; ");
  isSame("what each call took", shown(all), "294 ms · 40 in, 176 out; 57 ms; 30 ms; 1.2 s; 20 ms");
  isSame("of a loop that was longer than it says", shown([...all.slice(0, 4), ["omitted", 1]]), "294 ms · 40 in, 176 out; 57 ms; 30 ms; 1.2 s");
  isSame("a result without a call", shown([all[0], all[2], all[3], all[4]]), "294 ms · 40 in, 176 out; 30 ms; 1.2 s; 20 ms");
  for (const odd of [all.slice(0, 3), [...all, ["model", 1]], [], null, "x", [[]], [["model"]], [["omitted", 3]], [["model", "x"], 5]]) isSame("times of other calls", shown(odd), "");
}

function checkShapes() {
  const row = { id: "0/0", kind: "", line: 1, agent: "a" };
  const odd = [null, 5, "text", true, [], {}, [[[]]], { a: { b: [] } }, ["x", 1, null, {}], { text: 5 }, { type: 5, role: [], content: { a: 1 } }];
  const deep = JSON.parse("[".repeat(500) + "]".repeat(500));
  for (const value of [...odd, deep]) {
    for (const key of ["responses_create_params", "response", "_gym", "judge_evaluations", "reward", "step_rewards", "metadata", "rewards", "patch"]) rolloutBlocks(row, { response: { output: [] }, [key]: value }, "f", null);
    for (const key of ["input", "tools", "instructions"]) rolloutBlocks(row, { responses_create_params: { [key]: value } }, "f", null);
    for (const key of ["output", "usage", "model", "agent_calls", "other_sequences", "incomplete_details", "status"]) rolloutBlocks(row, { response: { output: [value], [key]: value } }, "f", null);
    for (const key of ["type", "role", "content", "summary", "name", "arguments", "output", "call_id", "tool_calls", "generation_log_probs", "generation_token_ids", "usage", "status", "id"]) for (const type of ["message", "reasoning", "function_call", "function_call_output", "web_search_call", "x"]) isTrue("any shape", conversationBlock([{ type, [key]: value }, value], { agentCalls: value, stepRewards: value }).childNodes.length === 1);
    for (const key of ["response", "verdict_label", "responses_create_params"]) judgeBlocks({ judge_evaluations: [{ [key]: value }, value] });
    isTrue("rows", Boolean(JSON.stringify(rolloutToCase({ response: value, _gym: value, reward: value }, value))));
  }
  isTrue("a long text shows a part", textBlock("x".repeat(3e6)).textContent.length < 2e5);
  isTrue("a long JSON too", jsonBlock({ a: "x".repeat(3e6), b: new Array(1e5).fill({ c: 1 }) }).textContent.length < 2e5);
}

/** Nothing of what a rollout says becomes an element that runs, loads or leads away. */
function checkHostile() {
  const isHarmless = (node) => [...node.querySelectorAll("*")].every((one) => !/^(script|iframe|object|embed|form|meta|link|base|svg|style|video|audio|input)$/i.test(one.tagName) && [...one.attributes].every((each) => !/^on|^(href|src|srcset|action|formaction|xlink:href|srcdoc)$/i.test(each.name) || (one.tagName === "IMG" && /^data:image\/(png|jpeg|gif|webp);base64,/.test(each.value)) || (one.tagName === "A" && /^#step-\d+$/.test(each.value)))) && ![...node.querySelectorAll("[style]")].some((one) => /url|expression|@import/i.test(one.getAttribute("style")));
  const row = { id: "0/0", kind: "", line: 1, agent: "a" };
  for (const text of HOSTILE) {
    const wrapped = [text, `**${text}**`, `[${text}](${text})`, `![${text}](${text})`, `$${text}$`, `\`${text}\``, `| ${text} |\n|---|\n| ${text} |`, `# ${text}\n> ${text}\n- ${text}`, `\`\`\`${text}\n${text}\n\`\`\``, `\\text{${text}}`, `$\\text{${text}}\\href{${text}}{x}\\color{${text}}y$`, `<${text}>`];
    const nodes = [...wrapped.map((one) => box(markdownNodes(one))), box(ansiNodes(`\x1b[31m${text}\x1b[38;2;${text}m${text}`)), box(diffBlock(`diff --git a/${text} b/${text}\n--- a/${text}\n+++ b/${text}\n@@ -1 +1 @@ ${text}\n-${text}\n+${text}`)), ...["python", "json", "shell", "js", "sql", text].map((one) => box(codeBlock(text, one))), box(valueBlock({ [text]: text, patch: text, code: text, a: { [text]: text } }))];
    const body = { responses_create_params: { input: text, instructions: text, tools: [{ name: text, description: text }] }, [text]: text, response: { model: text, output: [{ type: text, [text]: text }, { role: text, content: [{ type: "input_image", image_url: text }, { text, logprobs: [{ token: text, logprob: -1, top_logprobs: [{ token: text, logprob: -2 }] }] }] }, { type: "function_call", call_id: "c", name: text, arguments: text }, { type: "function_call_output", call_id: "c", output: text }, { type: "reasoning", summary: text, content: [text] }] }, judge_evaluations: [{ verdict_label: text, response: { model: text, output: [{ content: text }] } }], reason: text, _gym: { key: text, model: text, seconds: 1, hops: { [text]: 5 } } };
    nodes.push(box(rolloutBlocks(row, body, text, null)), box(besideBlocks({ body, output: body.response.output, context: {}, label: text, chip: null }, { body, output: [], context: {}, label: text, chip: null })));
    for (const node of nodes) {
      node.querySelectorAll("details").forEach((one) => { one.open = true; one.dispatchEvent(new Event("toggle")); });
      isTrue(`harmless: ${text}`, isHarmless(node), node.outerHTML.slice(0, 600));
    }
    isSame(`as written: ${text}`, said(textBlock(text)), said(signs(text)));
  }
  isTrue("nothing ran", window.owned === undefined);
}

for (const check of [checkMarkdown, checkMaths, checkCode, checkDiffs, checkTerminals, checkSigns, checkConversation, checkShapes, checkHostile]) {
  try {
    check();
  } catch (error) {
    found.wrong.push(`${check.name}: ${error.stack}`);
  }
}
document.body.replaceChildren(`FOUND${JSON.stringify(found)}END`);
