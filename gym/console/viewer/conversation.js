"use strict";
// Items as steps: each is made when it comes near the screen, so that ten thousand of them open at once.
const CHUNK = 40, STEP_HEIGHT = 110;
const madeByModel = (item) => item.role === "assistant" || item.type === "reasoning" || asText(item.type).endsWith("_call");
const isResult = (item) => asText(item.type).endsWith("call_output") || item.role === "tool";

/** [{kind, title, make}], a call together with its result. `context`: agentCalls, stepRewards, stepTimes, depth. */
function stepsOf(items, given) {
  const keyOf = (item) => item.call_id ?? item.tool_call_id ?? item.id;
  const known = items.map((item) => (isObject(item) ? item : { type: "not an item", value: item }));
  const context = { ...given, times: timesOfItems(known, isObject(given) ? given.stepTimes : undefined) };
  const calls = new Set(known.filter((item) => isCall(item)).map(keyOf));
  const outputs = new Map(known.filter((item) => isResult(item)).map((item) => [keyOf(item), item]));
  const rewards = rewardsOfTurns(known, context.stepRewards);
  const steps = [];
  known.forEach((item, index) => {
    if (isResult(item) && calls.has(keyOf(item)) && outputs.get(keyOf(item)) === item) return;
    const step = { ...stepOf(item, outputs.get(keyOf(item)), context), item, output: isCall(item) ? outputs.get(keyOf(item)) : undefined, reward: rewards.get(index) };
    steps.push(step);
  });
  return steps;
}

const isCall = (item) => /^(?:function|custom_tool)_call$/.test(asText(item.type)) || (asText(item.type).endsWith("_call") && item.call_id !== undefined);

function stepOf(item, output, context) {
  const kind = asText(item.type) || "message";
  if (isCall(item)) return { kind: "call", title: asText(item.name) || kind, make: () => callBlock(item, output, context) };
  if (kind === "reasoning") return { kind: "thought", title: "reasoning", make: () => thoughtBlock(item) };
  if (isResult(item)) return { kind: "result", title: "result", make: () => make("div", "said", make("div", "who", "tool result", exitOf(item) === null ? null : exitChip(exitOf(item)), stepFacts(item, context)), outputBlock(item)) };
  if (kind === "message") return { kind: asText(item.role) || "message", title: plainTitle(textOf(item.content)) || asText(item.role), make: () => messageBlock(item, context) };
  return { kind: "other", title: kind, make: () => fold(kind.slice(0, 100), "said", jsonBlock(item.type === "not an item" ? item.value : item)) };
}

const textOf = (content) => (typeof content === "string" ? content : asList(content).slice(0, 20).map((part) => (isObject(part) ? asText(part.text ?? part.refusal ?? "") : asText(part))).join(" "));

/** Rewards of the single turns, where there are as many as turns: at the last item of each. */
function rewardsOfTurns(items, given) {
  const ends = [];
  items.forEach((item, index) => {
    if (madeByModel(item) && (index + 1 === items.length || !madeByModel(items[index + 1]))) ends.push(index);
  });
  const rewards = asList(given);
  return new Map(rewards.length && rewards.length === ends.length ? ends.map((end, index) => [end, rewards[index]]) : []);
}

/** The first words, without the marks of Markdown. */
const plainTitle = (text) => text.trim().slice(0, 200).replace(/[*`#]+/g, "").trim().slice(0, 140);

function messageBlock(item, context = {}) {
  const role = asText(item.role) || "message";
  const known = ["user", "assistant", "system", "developer"].includes(role) ? role : "";
  const status = item.status && item.status !== "completed" ? make("small", "failed", signs(asText(item.status))) : null;
  const [thought, content] = splitThought(item.content);
  const extra = [...asList(item.reasoning_content ? [asText(item.reasoning_content)] : []), ...(thought ? [thought] : [])];
  const calls = asList(item.tool_calls).filter(isObject).map((one) => fold(`calls ${asText(isObject(one.function) ? one.function.name : one.name)}`, "", valueBlock(isObject(one.function) ? one.function.arguments : one)));
  return make("div", `said ${known}`, make("div", "who", signs(role.slice(0, 60)), status, tokensNote(item), stepFacts(item, context)), extra.map((text) => thoughtFold(text, "thought")), contentParts(content), calls, tokensFold(item));
}

/** Models that think aloud: `<think>…</think>` before the answer. */
function splitThought(content) {
  const first = Array.isArray(content) ? content[0] : content, text = isObject(first) ? first.text : first;
  if (reading.raw || typeof text !== "string" || !/^\s*<think(?:ing)?>/.test(text.slice(0, 200)) || isObject(first) && first.logprobs && reading.shades) return ["", content];
  const end = /<\/think(?:ing)?>/.exec(text);
  if (!end) return ["", content];
  const thought = text.slice(text.indexOf(">") + 1, end.index).trim(), rest = text.slice(end.index + end[0].length).trimStart();
  return [thought, Array.isArray(content) ? [{ ...(isObject(first) ? first : {}), text: rest }, ...content.slice(1)] : rest];
}

function thoughtBlock(item) {
  const texts = [...asList(item.content), ...asList(item.summary)].map((part) => (isObject(part) ? asText(part.text) : asText(part))).filter(Boolean);
  const text = [...new Set(texts)].join("\n\n");
  if (!text) return fold(item.encrypted_content ? "Reasoning, encrypted" : "Reasoning, empty", "said thought", tokensNote(item));
  return thoughtFold(text, "said thought", tokensNote(item), tokensFold(item));
}

function thoughtFold(text, classes, ...notes) {
  const first = text.trim().split("\n", 1)[0].slice(0, 140);
  return lazyFold(`Reasoning: ${plainTitle(first)}${text.trim().length > first.length ? " …" : ""}`, classes, () => [textBlock(text, "prose"), ...notes]);
}

/** What an item tells of its own cost, whatever the peer calls it; or what its call took. */
function stepFacts(item, context = {}) {
  const [, took, read, wrote] = context.times?.get(item) ?? [];
  const used = (into, out) => `${short(into ?? 0)} in, ${short(out)} out`;
  if (typeof took === "number") return make("small", "", duration(took / 1000), typeof wrote === "number" ? ` · ${used(read, wrote)}` : null);
  const facts = [];
  const seconds = [["seconds", 1], ["duration", 1], ["duration_seconds", 1], ["duration_ms", 0.001], ["latency_ms", 0.001], ["elapsed_ms", 0.001]].map(([key, unit]) => (typeof item[key] === "number" ? item[key] * unit : null)).find((one) => one !== null);
  if (seconds !== undefined && Number.isFinite(seconds)) facts.push(duration(seconds));
  const usage = isObject(item.usage) ? item.usage : {};
  if (typeof usage.output_tokens === "number") facts.push(used(usage.input_tokens, usage.output_tokens));
  return facts.length ? make("small", "", facts.join(" · ")) : null;
}

/** What cannot be shown says so and stands as JSON; the rest of the page stays. */
function guarded(show, value) {
  try {
    return show();
  } catch (error) {
    return make("div", "said", make("div", "failed", `This part cannot be shown as it was meant: ${error.message}`), jsonBlock(value));
  }
}

function stepNode(step, index, name) {
  const node = make("div", "step", guarded(step.make, step.item));
  if (name) {
    node.id = `${name}-${index + 1}`;
    const mark = make("a", "step-number", `#${index + 1}`);
    mark.href = `#${node.id}`;
    mark.onclick = (event) => { event.preventDefault(); node.scrollIntoView({ block: "start" }); };
    if (name === "step") node.append(mark);
  }
  if (typeof step.reward === "number") node.append(make("span", "chip step-reward", `step reward ${short(step.reward)}`));
  return node;
}

/** The steps as a list that fills itself as it is scrolled to; `reveal(index)` brings one step to the screen. */
function stepList(steps, name = "") {
  const node = make("div", "steps"), chunks = [];
  const watch = new IntersectionObserver((seen) => seen.filter((one) => one.isIntersecting).forEach((one) => fillChunk(Number(one.target.dataset.chunk))), { rootMargin: "800px 0px" });
  const fillChunk = (number) => {
    const chunk = chunks[number];
    if (!chunk || chunk.dataset.full) return;
    chunk.dataset.full = "true";
    watch.unobserve(chunk);
    chunk.style.removeProperty("min-height");
    chunk.append(...steps.slice(number * CHUNK, (number + 1) * CHUNK).map((step, index) => stepNode(step, number * CHUNK + index, name)));
  };
  for (let start = 0; start < steps.length; start += CHUNK) {
    const chunk = make("div", "chunk");
    chunk.dataset.chunk = chunks.length;
    chunk.style.setProperty("min-height", `${Math.min(CHUNK, steps.length - start) * STEP_HEIGHT}px`);
    chunks.push(chunk);
    watch.observe(chunk);
  }
  fillChunk(0);
  node.append(...chunks);
  const reveal = (index) => {
    fillChunk(Math.floor(index / CHUNK));
    const found = chunks[Math.floor(index / CHUNK)]?.children[index % CHUNK];
    found?.scrollIntoView({ block: "start" });
    return found;
  };
  return { node, reveal };
}

const conversationBlock = (items, context) => stepList(stepsOf(items, context)).node;
