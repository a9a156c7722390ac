"use strict";
// One rollout, put together: its head, the conversation, judges, verifier, row, time. Every text becomes a text node.
const SHOWN_ELSEWHERE = new Set(["responses_create_params", "response", "reward", "agent_ref", "_gym", "_ng_task_index", "_ng_rollout_index"]);
const FAILURE_FIELDS = new Set(["kind", "server", "message", "retryable", "attempt", "row"]);
const opened = { row: null, body: null, asked: null, marks: null, beside: null, reveal: null, turn: 0 };

function sectionHead(title, name) {
  const node = make("h3", "section", title);
  node.id = `part-${name}`;
  return node;
}

function toolsBlock(tools) {
  if (!tools.length) return null;
  const name = (tool) => asText(isObject(tool) ? tool.name || (isObject(tool.function) && tool.function.name) || tool.type : tool).slice(0, 100);
  const one = (tool) => make("div", "tool", make("b", "mono", signs(name(tool))), isObject(tool) && tool.description ? make("div", "soft", signs(asText(tool.description))) : null, lazyFold("schema", "", () => jsonBlock(isObject(tool) ? tool.parameters ?? tool : tool)));
  return lazyFold(`${plural(tools.length, "tool")} offered: ${tools.slice(0, 40).map(name).join(", ")}`, "aside", () => tools.slice(0, 500).map(one));
}

function askedBlocks(params) {
  if (!isObject(params)) return params === undefined || params === null ? [] : [jsonBlock(params)];
  const input = typeof params.input === "string" ? [{ role: "user", content: params.input }] : asList(params.input);
  const instructions = params.instructions ? make("div", "said system", make("div", "who", "instructions"), textBlock(asText(params.instructions), "prose")) : null;
  const settings = Object.entries(params).filter(([key, value]) => !["input", "instructions", "tools"].includes(key) && value !== null);
  return [instructions, toolsBlock(asList(params.tools)), settings.length ? lazyFold(`Asked with ${settings.map(([key]) => key).join(", ")}`, "aside", () => fieldList(settings, "text")) : null, conversationBlock(input, { depth: 0 })].filter(Boolean);
}

function factList(row, body, file) {
  const response = isObject(body.response) ? body.response : {}, stamp = isObject(body._gym) ? body._gym : {};
  const usage = isObject(response.usage) ? response.usage : {};
  const detail = (key, name) => (isObject(usage[key]) && usage[key][name] ? ` (${short(usage[key][name])} ${name.split("_")[0]})` : "");
  const read = usage.input_tokens === undefined ? "" : `${short(usage.input_tokens)} in${detail("input_tokens_details", "cached_tokens")}`;
  const wrote = usage.output_tokens === undefined ? "" : `${short(usage.output_tokens)} out${detail("output_tokens_details", "reasoning_tokens")}`;
  const tokens = [read, wrote].filter(Boolean).join(", ");
  const incomplete = isObject(response.incomplete_details) ? asText(response.incomplete_details.reason) : "";
  const facts = {
    agent: row.agent, model: asText(response.model || stamp.model), tokens, ...stampFacts(stamp),
    attempt: (stamp.attempt ?? body.attempt ?? 1) > 1 ? asText(stamp.attempt ?? body.attempt) : "",
    status: response.status && response.status !== "completed" ? `${asText(response.status)}${incomplete ? `: ${incomplete}` : ""}` : "",
    "cut by": asText(response.truncated_by), "tokens break": asText(stamp.tokens_break),
    seed: asText(stamp.seed), key: asText(stamp.key), line: `${file}:${row.line}`,
  };
  return make("dl", "facts", Object.entries(facts).filter(([, value]) => value).map(([key, value]) => make("div", "", make("dt", "", key), make("dd", "", signs(value.slice(0, 400))))));
}

/** What the verifier added stands behind the response, what the row brought before it. */
const wantedFields = (body, failed) => (key) => !SHOWN_ELSEWHERE.has(key) && !(failed && FAILURE_FIELDS.has(key));
function addedFields(body, failed = false) {
  const keys = Object.keys(body);
  return keys.slice(keys.indexOf("response") + 1).filter(wantedFields(body, failed));
}

function broughtFields(body, failed) {
  const keys = Object.keys(body), border = keys.indexOf("response");
  return border < 0 ? [] : keys.slice(0, border).filter(wantedFields(body, failed));
}

function problemBlock(row, body) {
  if (row.kind === "malformed") return make("div", "", make("div", "problem", make("b", "", "This line cannot be read. "), signs(`${asText(body.reason)} (${plural(Number(body.bytes) || 0, "byte")}, ${asText(body.where)})`)), make("div", "said", textBlock(asText(body.text))));
  if (!row.kind) return null;
  const retry = body.retryable === true ? "A new attempt may help." : body.retryable === false ? "A new attempt will not help." : "";
  const said = body.message || body._ng_failure_reason || body.failure_reason || "";
  return make("div", "problem", make("b", "", signs(row.kind)), body.server ? signs(` at ${asText(body.server)}`) : "", textBlock(asText(said)), make("div", "", retry, body.row ? signs(` Row: ${asText(body.row)}`) : ""));
}

const outputOf = (body) => (isObject(body) && isObject(body.response) && Array.isArray(body.response.output) ? body.response.output : []);
const contextOf = (body) => ({ depth: 0, agentCalls: isObject(body) && isObject(body.response) ? body.response.agent_calls : [], stepRewards: isObject(body) ? body.step_rewards : undefined, stepTimes: isObject(body) && isObject(body._gym) ? body._gym.steps : undefined });

function rolloutBlocks(row, body, file, asked) {
  if (row.kind === "malformed") return [problemBlock(row, body)];
  if (!isObject(body)) return [make("p", "empty", "This line is not a rollout."), jsonBlock(body)];
  const failed = Boolean(row.kind), response = isObject(body.response) ? body.response : null, output = outputOf(body);
  const added = addedFields(body, failed), brought = broughtFields(body, failed);
  const part = (show) => guarded(show, body);
  const list = stepList(stepsOf(output, contextOf(body)), "step");
  opened.reveal = list.reveal;
  const odd = body.response !== undefined && (!response || !Array.isArray(response.output)) ? make("div", "said", make("div", "who", "response of an unknown shape"), jsonBlock(body.response)) : null;
  return [
    part(() => factList(row, body, file)), problemBlock(row, body), part(() => componentChips(body, added)),
    sectionHead("Task", "task"), part(() => askedBlocks(body.responses_create_params || (asked && asked.responses_create_params))),
    response ? sectionHead(output.length ? `The rollout: ${plural(output.length, "item")}` : "The rollout: no output", "rollout") : null, odd, list.node,
    part(() => (response ? otherSequences(response, contextOf(body)) : [])),
    part(() => judgeBlocks(body)), part(() => verifierBlocks(body, added)), part(() => hopsBlock(body._gym)),
    part(() => (brought.length ? [sectionHead("Row", "row"), make("div", "said", fieldList(brought.map((key) => [key, body[key]])))] : [])),
    sectionHead("Raw", "raw"), lazyFold("All of it, as JSON", "", () => make("div", "said", jsonBlock(body))),
  ].flat(Infinity).filter(Boolean);
}

/** Shows it in the pane. `look`: {file, label, chip, step, back}; what the list knows and does. */
async function showRollout(row, look) {
  const turn = (opened.turn += 1), pane = $("reading");
  Object.assign(opened, { row, look, beside: null, body: null, marks: null });
  try {
    opened.body = await source.one(row);
    opened.asked = row.kind && row.kind !== "malformed" && isObject(opened.body) && !opened.body.responses_create_params ? await source.asked(row) : null;
    opened.found = await source.marks(row).catch((error) => ({ problem: error.message }));
    opened.repeats = row.kind === "malformed" ? [] : await source.repeats(row).catch(() => []);
  } catch (error) {
    if (turn === opened.turn) pane.replaceChildren(make("p", "empty", error.message));
    return;
  }
  if (turn !== opened.turn) return;
  const asked = opened.wanted === row.id ? "" : opened.wanted;
  opened.wanted = "";
  const wanted = opened.repeats.find((one) => one.id === asked) || (asked ? await source.row(asked).catch(() => null) : null); // perhaps of another run
  if (turn !== opened.turn) return;
  await (wanted ? showBeside(wanted) : showOpened());
}

function showOpened() {
  const { row, look, body } = opened;
  if (!body) return; // another one is being read
  const blocks = opened.beside ? besideBlocks(...opened.beside) : rolloutBlocks(row, body, look.file, opened.asked);
  opened.marks = marksBlock(row, opened.found || {});
  const outline = opened.beside || row.kind === "malformed" ? null : outlineBlock(blocks);
  $("reading").replaceChildren(headLine(), opened.marks.box, make("div", "read", make("div", "read-main", blocks), outline));
  $("reading").scrollTop = 0;
}

function headLine() {
  const { row, look, body } = opened;
  const button = (text, title, act) => { const node = make("button", "", text); node.title = title; node.onclick = act; return node; };
  const back = button("‹ all rollouts", "", () => document.body.classList.remove("reading"));
  back.id = "back";
  const raw = make("a", "", source.live ? "JSON" : "save JSON");
  raw.target = "_blank";
  raw.rel = "noopener";
  if (source.live) raw.href = source.raw(row);
  else raw.onclick = () => { raw.href = source.raw(row); raw.download = `rollout-${row.id.replace(/[/:]/g, "-")}.json`; };
  const shape = button(reading.raw ? "rendered" : "as written", "Markdown, maths and colours, or the text as it is (m)", toggleRaw);
  const shades = hasShades(body) ? button(reading.shades ? "no shades" : "shades", "Log-probabilities as shades", toggleShades) : null;
  return make("div", "head", make("h2", "", look.label(row)), look.chip(row), opened.marks.buttons,
    make("span", "links", back, button("‹ previous", "k", () => look.step(-1)), button("next ›", "j", () => look.step(1)), shape, shades, besideChoice(), row.kind === "malformed" || !isObject(body) ? null : copyButtons(row, body), raw));
}

const hasShades = (body) => isObject(body) && outputOf(body).some((item) => isObject(item) && asList(item.content).some((part) => isObject(part) && tokensOfPart(part)));

/** The state of a page stands behind `?`, or behind `#` in a file. */
function addressBeside(id) {
  const inFile = location.protocol === "file:", asked = new URLSearchParams(inFile ? location.hash.slice(1) : location.search);
  if (id !== undefined) {
    asked.delete("beside");
    if (id) asked.set("beside", id);
    history.replaceState(null, "", inFile ? `#${asked}` : `${location.pathname}?${asked}`);
  }
  return asked.get("beside") || "";
}

/** The other repeats of the task. */
function besideChoice() {
  const others = (opened.repeats || []).filter((one) => one.id !== opened.row.id), elsewhere = opened.beside?.[1].row;
  if (elsewhere && !others.some((one) => one.id === elsewhere.id)) others.push(elsewhere);
  if (!others.length) return null;
  const choice = make("select", "");
  choice.setAttribute("aria-label", "Beside another rollout of this task");
  const option = (value, text) => Object.assign(make("option", "", text), { value });
  choice.append(option("", "beside …"), ...others.map((one) => option(one.id, `${opened.look.label(one)}: ${one.kind || (one.reward === null ? "no reward" : short(one.reward))}`)));
  choice.value = opened.beside ? opened.beside[1].row.id : "";
  choice.onchange = () => { const found = others.find((one) => one.id === choice.value); if (found) showBeside(found); else { opened.beside = null; addressBeside(""); showOpened(); } };
  return choice;
}

async function showBeside(other) {
  const turn = opened.turn, body = await source.one(other);
  if (turn !== opened.turn) return;
  const { look, row } = opened;
  const side = (one, its, open) => ({ row: one, body: isObject(its) ? its : {}, output: isObject(its) ? outputOf(its) : [], context: isObject(its) ? contextOf(its) : { depth: 0 }, label: other.run === row.run ? look.label(one) : `${one.run}: ${look.label(one)}`, chip: look.chip(one), open });
  const alone = () => { opened.beside = null; addressBeside(""); };
  opened.beside = [side(row, opened.body, () => { alone(); showOpened(); }), side(other, body, () => { alone(); look.open(other); })];
  addressBeside(other.id);
  showOpened();
}

function toggleRaw() {
  reading.raw = !reading.raw;
  showOpened();
}

function toggleShades() {
  reading.shades = !reading.shades;
  showOpened();
}

opened.wanted = addressBeside();
onKeys({
  m: ["rendered, or as written", () => opened.body && toggleRaw()],
  f: ["flag", () => opened.marks?.toggle()],
  c: ["write a note", () => opened.marks?.write()],
});
