"use strict";
// Try it: a person as the policy. What is sent goes to the resources server as an agent would send it.
const TRIES = "/view/api/environments/tries";
const trying = { view: null, row: 0, server: "", own: "", answer: "" };

const postJson = (path, value) => fetchJson(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value) });

const button = (text, classes, act) => { const node = make("button", classes, text); node.type = "button"; node.onclick = act; return node; };

/** The whole of it, for the environment that is shown. */
function tryBlock(env) {
  if (!env.instances.length) return needsStack(env);
  return make("div", "try", trying.view ? null : beginBlock(env), trying.view ? triedBlock(env, trying.view) : null);
}

function needsStack(env) {
  const why = env.stack ? `This stack does not run ${env.name}.` : "To try it, it has to run.";
  const command = make("pre", "code", env.start || `gym up ${env.name}`);
  return make("div", "try", make("p", "", why, " Start it, and open the address that is printed; its page “Environments” has this form:"), command, make("p", "soft", `In a terminal, with a stack that runs: gym play ${env.name}`));
}

function beginBlock(env) {
  const option = (value, text) => { const node = make("option", "", text); node.value = String(value); return node; };
  if (!env.instances.includes(trying.server)) trying.server = env.instances[0];
  const servers = make("select", "", env.instances.map((one) => option(one, one)));
  servers.value = trying.server;
  servers.onchange = () => { trying.server = servers.value; };
  servers.setAttribute("aria-label", "instance");
  const rows = make("select", "", env.rows.shown.map((one, each) => option(each, `row ${each}: ${one.title || "…"}`)), option("own", "a row of my own"));
  rows.setAttribute("aria-label", "row");
  rows.value = env.rows.shown[trying.row] ? String(trying.row) : "own";
  const own = make("textarea", "mono own-row");
  own.rows = 8;
  own.value = trying.own || '{"responses_create_params": {"input": "…"}}';
  own.setAttribute("aria-label", "a row as JSON");
  own.oninput = () => { trying.own = own.value; };
  own.hidden = rows.value !== "own";
  rows.onchange = () => { own.hidden = rows.value !== "own"; trying.row = Number(rows.value); };
  const begin = button("Begin", "primary", () => act(env, async () => {
    const row = rows.value === "own" ? { row: readOwn(own.value) } : { example: Number(rows.value) };
    return postJson(TRIES, { server: servers.value, ...row });
  }));
  return make("div", "begin", make("p", "", "You are the policy: you see what a model sees, call its tools, answer, and get the verifier's word."), make("p", "acts", env.instances.length > 1 ? servers : null, rows, begin), own);
}

function readOwn(text) {
  try { return JSON.parse(text); } catch (error) { throw new Error(`The row is not JSON: ${error.message}`); }
}

/** Sends, and shows the try as it is then. What is wrong with what was sent stands above the page, and nothing typed is lost. */
async function act(env, send) {
  const buttons = [...$("part").querySelectorAll("button")];
  for (const node of buttons) node.disabled = true;
  try {
    trying.view = await send();
    showTrouble();
    showPart(env);
  } catch (error) {
    for (const node of buttons) node.disabled = false;
    showTrouble(error.message);
  }
}

const sendTurn = (body) => postJson(`${TRIES}/${encodeURIComponent(trying.view.id)}`, body);
const turn = (env, body) => act(env, () => sendTurn(body));

function triedBlock(env, view) {
  const prompt = view.instructions ? make("div", "said system", make("div", "who", "instructions"), textBlock(asText(view.instructions), "prose")) : null;
  const end = view.state === "open" ? yourTurn(env, view) : endBlock(view);
  const again = button(view.state === "open" ? "Leave" : "Begin another", "", () => (view.state === "open" ? turn(env, { close: true }) : forget(env)));
  return make("div", "tried", make("p", "acts soft", make("span", "", `${view.server} · `, make("b", "", view.state)), again), prompt, conversationBlock(view.items, { depth: 0 }), end);
}

function yourTurn(env, view) {
  const answer = make("textarea", "answer");
  answer.rows = 4;
  answer.placeholder = view.steps ? "Your reply to the environment" : "Your answer; the verifier gets it";
  answer.setAttribute("aria-label", "answer");
  answer.value = trying.answer;
  answer.oninput = () => { trying.answer = answer.value; };
  const say = () => act(env, async () => { const view = await sendTurn({ say: answer.value }); trying.answer = ""; return view; });
  answer.onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); say(); } };
  const send = button(view.steps ? "Reply" : "Answer", "primary", say);
  const sofar = view.rewards.length ? make("span", "soft", `reward so far ${short(view.rewards.reduce((sum, one) => sum + one, 0))}`) : null;
  const tools = asList(view.tools).filter(isObject).slice(0, 100);
  const forms = tools.map((tool) => make("details", "said tool-call", make("summary", "", make("b", "mono", signs(toolName(tool))), " ", signs(asText(tool.description).split("\n")[0].slice(0, 160))), toolForm(tool, (given) => turn(env, { tool: toolName(tool), arguments: given }))));
  if (forms.length === 1) forms[0].open = true;
  return make("section", "your-turn", make("h3", "", "Your turn"), forms, make("div", "said assistant", make("div", "who", "answer"), answer, make("p", "acts", send, make("small", "soft", "Ctrl+Enter"), sofar)));
}

const toolName = (tool) => asText(tool.name || (isObject(tool.function) ? tool.function.name : ""));

function endBlock(view) {
  if (view.failure) return make("div", "problem", make("b", "", `Failure: ${signsText(view.failure.kind)}`), make("div", "", signs(`${asText(view.failure.server)}${view.failure.server ? ": " : ""}${asText(view.failure.message)}`)), make("p", "soft", "The infrastructure failed, or the row cannot be played: this is not a reward, and would be a failure of the rollout."));
  if (!view.verdict) return make("p", "soft", "Left before the verdict; the session is closed.");
  const { reward, reason, more } = view.verdict, chip = make("span", "chip scored reward", `reward ${asText(reward)}`);
  chip.style.setProperty("--t", String(Math.min(1, Math.max(0, Number(reward) || 0))));
  const steps = view.rewards.length > 1 ? make("p", "soft", `the sum of ${view.rewards.map(short).join(" + ")}`) : null;
  return make("section", "verdict", make("h3", "", "Verdict"), make("p", "", chip), steps, reason ? make("div", "reason", make("b", "", "Reason"), textBlock(asText(reason), "text")) : make("p", "soft", "The verifier gives no reason."), Object.keys(more).length ? lazyFold(`What else it says: ${Object.keys(more).slice(0, 12).join(", ").slice(0, 200)}`, "aside", () => jsonBlock(more)) : null);
}

const signsText = (value) => asText(value).slice(0, 60);

function forget(env) {
  trying.view = null;
  trying.answer = "";
  showTrouble();
  showPart(env);
}

/** A try of the address, as the console still has it. */
async function findTry(id) {
  if (!id || trying.view?.id === id) return;
  try {
    trying.view = await fetchJson(`${TRIES}/${encodeURIComponent(id)}`);
  } catch (error) {
    showTrouble(error.message);
  }
}
