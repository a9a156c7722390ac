// One rollout as a conversation. Every text becomes a text node: nothing from a rollout is ever read as markup.
const MOST_SHOWN = 100000, LONG_TEXT = 3000, LONG_LINES = 40;
const TOKEN_FIELDS = ["prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts"];
const SHOWN_ELSEWHERE = new Set(["responses_create_params", "response", "reward", "agent_ref", "_gym", "_ng_task_index", "_ng_rollout_index"]);
const FAILURE_FIELDS = new Set(["kind", "server", "message", "retryable", "attempt", "row"]);

function parsed(text) {
  if (typeof text !== "string" || !/^\s*[[{]/.test(text)) return text;
  try { return JSON.parse(text); } catch { return text; }
}

/** Long lists of numbers (token ids, log-probabilities) say how long they are. */
function shortened(value, depth = 0) {
  if (Array.isArray(value)) {
    const cut = value.length > 40 && value.every((one) => typeof one !== "object" || one === null);
    const shown = (cut ? value.slice(0, 12) : value).map((one) => shortened(one, depth + 1));
    return cut ? [...shown, `… ${value.length - 12} more`] : shown;
  }
  if (!isObject(value)) return value;
  return depth > 60 ? "…" : Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shortened(one, depth + 1)]));
}

function textBlock(text, classes = "text") {
  const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}\n… ${plural(text.length - MOST_SHOWN, "more character")}: see the raw JSON` : text;
  const block = make(classes === "code" ? "pre" : "div", classes === "code" ? "" : classes, shown);
  if (text.length <= LONG_TEXT && text.split("\n", LONG_LINES + 1).length <= LONG_LINES) return block;
  block.classList.add("long");
  const more = make("button", "more", `show all ${plural(text.length, "character")}`);
  more.onclick = () => { block.classList.remove("long"); more.remove(); };
  return make("div", "", block, more);
}

/** Arguments, tool results, fields: objects as names and values, texts with their line breaks, the rest as JSON. */
function valueBlock(given) {
  const value = parsed(given);
  if (typeof value === "string") return textBlock(value);
  if (!isObject(value) || !Object.keys(value).length) return textBlock(JSON.stringify(shortened(value), null, 2) ?? "", "code");
  return fieldList(Object.entries(value));
}

function fieldList(entries) {
  return make("dl", "fields", entries.map(([key, value]) => {
    const simple = typeof value === "string" ? textBlock(value) : isObject(value) && Object.keys(value).length && Object.values(value).every((one) => typeof one !== "object") ? fieldList(Object.entries(value)) : textBlock(JSON.stringify(shortened(value), null, value && JSON.stringify(value).length > 80 ? 2 : 0) ?? "", "code");
    return [make("dt", "", key), make("dd", "", simple)];
  }));
}

function fold(summary, classes, ...children) {
  return make("details", classes, make("summary", "", summary), ...children);
}

function contentParts(content) {
  if (typeof content === "string") return [textBlock(content)];
  return asList(content).map((part) => {
    if (typeof part === "string") return textBlock(part);
    if (!isObject(part)) return textBlock(asText(part), "code");
    if (typeof part.text === "string") return textBlock(part.text);
    if (typeof part.refusal === "string") return make("div", "", make("b", "failed", "refused: "), textBlock(part.refusal));
    const url = asText(isObject(part.image_url) ? part.image_url.url : part.image_url);
    if (/^data:image\/(png|jpeg|gif|webp);base64,/.test(url)) {
      const image = make("img", "part");
      image.src = url;
      image.alt = "image of the message";
      return image;
    }
    return textBlock(JSON.stringify(shortened(part), null, 2), "code");
  });
}

function tokenNote(item) {
  const there = TOKEN_FIELDS.filter((name) => Array.isArray(item[name]) && item[name].length);
  if (!there.length) return null;
  const probs = asList(item.generation_log_probs).filter((one) => typeof one === "number");
  const mean = probs.length ? `, mean logprob ${short(probs.reduce((sum, one) => sum + one, 0) / probs.length)}` : "";
  return make("small", "", `${plural(asList(item.generation_token_ids).length, "token")} generated${mean}`);
}

function callBlock(item, output) {
  const call = make("div", "", make("span", "who", "calls ", make("b", "", asText(item.name) || "a tool"), " ", tokenNote(item)), valueBlock(item.arguments ?? item.input ?? ""));
  const result = make("div", "", make("span", "who", output ? "result" : "no result"), output ? outputBlock(output) : null);
  return make("div", "said call", call, result);
}

const outputBlock = (item) => (Array.isArray(item.output) ? make("div", "", contentParts(item.output)) : valueBlock(asText(item.output)));

function thoughtBlock(item) {
  const texts = [...asList(item.content), ...asList(item.summary)].map((part) => (isObject(part) ? asText(part.text) : asText(part))).filter(Boolean);
  const text = [...new Set(texts)].join("\n\n");
  const first = text.trim().split("\n", 1)[0].slice(0, 140);
  return fold(`Reasoning${first ? `: ${first}${text.length > first.length ? " …" : ""}` : item.encrypted_content ? ", encrypted" : ", empty"}`, "said thought", text ? textBlock(text) : null, tokenNote(item));
}

function messageBlock(item) {
  const role = asText(item.role) || "message";
  const known = ["user", "assistant", "system", "developer"].includes(role) ? role : "";
  const status = item.status && item.status !== "completed" ? make("small", "failed", asText(item.status)) : null;
  return make("div", `said ${known}`, make("div", "who", role, status, tokenNote(item)), contentParts(item.content));
}

function conversation(items) {
  const outputs = new Map(items.filter((item) => asText(item.type).endsWith("call_output")).map((item) => [item.call_id, item]));
  const calls = new Set(items.filter((item) => asText(item.type).endsWith("_call")).map((item) => item.call_id));
  return items.map((item) => {
    const kind = asText(item.type) || "message";
    if (kind === "message") return messageBlock(item);
    if (kind === "reasoning") return thoughtBlock(item);
    if (kind === "function_call" || kind === "custom_tool_call") return callBlock(item, outputs.get(item.call_id));
    if (kind.endsWith("call_output")) return calls.has(item.call_id) ? null : make("div", "said", make("div", "who", "tool result"), outputBlock(item));
    return fold(kind, "said", textBlock(JSON.stringify(shortened(item), null, 2), "code"));
  });
}

function toolsBlock(tools) {
  if (!tools.length) return null;
  const name = (tool) => asText(isObject(tool) ? tool.name || (isObject(tool.function) && tool.function.name) || tool.type : tool);
  const parts = tools.map((tool) => make("div", "", make("b", "mono", name(tool)), isObject(tool) && tool.description ? `: ${asText(tool.description)}` : "", fold("schema", "", textBlock(JSON.stringify(isObject(tool) ? tool.parameters ?? tool : tool, null, 2), "code"))));
  return fold(`${plural(tools.length, "tool")} offered: ${tools.map(name).join(", ")}`, "aside", parts);
}

function askedBlocks(params) {
  if (!isObject(params)) return [];
  const input = typeof params.input === "string" ? [{ role: "user", content: params.input }] : asList(params.input).filter(isObject);
  const instructions = params.instructions ? make("div", "said system", make("div", "who", "instructions"), textBlock(asText(params.instructions))) : null;
  const settings = Object.entries(params).filter(([key, value]) => !["input", "instructions", "tools"].includes(key) && value !== null);
  return [instructions, toolsBlock(asList(params.tools)), settings.length ? fold(`Asked with ${settings.map(([key]) => key).join(", ")}`, "aside", fieldList(settings)) : null, ...conversation(input)];
}

function factList(row, body, file) {
  const response = isObject(body.response) ? body.response : {}, stamp = isObject(body._gym) ? body._gym : {};
  const usage = isObject(response.usage) ? response.usage : {};
  const detail = (key, name) => (isObject(usage[key]) && usage[key][name] ? ` (${short(usage[key][name])} ${name.split("_")[0]})` : "");
  const tokens = usage.input_tokens === undefined && usage.output_tokens === undefined ? "" : `${short(usage.input_tokens)} in${detail("input_tokens_details", "cached_tokens")}, ${short(usage.output_tokens)} out${detail("output_tokens_details", "reasoning_tokens")}`;
  const incomplete = isObject(response.incomplete_details) ? asText(response.incomplete_details.reason) : "";
  const facts = {
    agent: row.agent, model: asText(response.model || stamp.model), tokens,
    took: typeof stamp.seconds === "number" ? duration(stamp.seconds) : "",
    queued: typeof stamp.queued === "number" && stamp.queued >= 0.01 ? duration(stamp.queued) : "",
    attempt: (stamp.attempt ?? body.attempt ?? 1) > 1 ? asText(stamp.attempt ?? body.attempt) : "",
    status: response.status && response.status !== "completed" ? `${asText(response.status)}${incomplete ? `: ${incomplete}` : ""}` : "",
    began: typeof stamp.started === "number" ? new Date(stamp.started * 1000).toLocaleString() : "",
    seed: asText(stamp.seed), key: asText(stamp.key), line: `${file}:${row.line}`,
  };
  return make("dl", "facts", Object.entries(facts).filter(([, value]) => value).map(([key, value]) => make("div", "", make("dt", "", key), make("dd", "", value))));
}

function hopsBlock(stamp) {
  const hops = isObject(stamp) && isObject(stamp.hops) ? Object.entries(stamp.hops).filter(([, one]) => typeof one === "number" && one > 0) : [];
  if (!hops.length) return [];
  const total = hops.reduce((sum, [, one]) => sum + one, 0);
  const bars = hops.map(([name, one], index) => {
    const bar = make("span", "", one / total > 0.08 ? name : "");
    bar.style.flex = `${one} 1 0`;
    bar.style.setProperty("--n", index);
    bar.title = `${name} ${duration(one / 1000)}`;
    return bar;
  });
  return [make("h3", "", "Where the time went"), make("div", "hops", bars), make("p", "", hops.map(([name, one]) => `${name} ${duration(one / 1000)}`).join(" · "))];
}

/** What the row brought and what its verifier added; the latter stands behind the response and comes first here. */
function extraFields(body, failed) {
  const keys = Object.keys(body), border = keys.indexOf("response");
  const wanted = (key) => !SHOWN_ELSEWHERE.has(key) && !(failed && FAILURE_FIELDS.has(key));
  const added = keys.slice(border + 1).filter(wanted), brought = border < 0 ? [] : keys.slice(0, border).filter(wanted);
  const list = (names) => make("div", "said", fieldList(names.map((key) => [key, body[key]])));
  return [added.length ? [make("h3", "", "Verifier"), list(added)] : [], brought.length ? [make("h3", "", "Row"), list(brought)] : []].flat();
}

function problemBlock(row, body) {
  if (row.kind === "malformed") return make("div", "", make("div", "problem", make("b", "", "This line cannot be read. "), `${asText(body.reason)} (${plural(body.bytes, "byte")}, ${asText(body.where)})`), make("div", "said", make("pre", "", asText(body.text))));
  if (!row.kind) return null;
  const retry = body.retryable === true ? "A new attempt may help." : body.retryable === false ? "A new attempt will not help." : "";
  const said = body.message || body._ng_failure_reason || body.failure_reason || "";
  return make("div", "problem", make("b", "", row.kind), body.server ? ` at ${asText(body.server)}` : "", textBlock(asText(said)), make("div", "", retry, body.row ? ` Row: ${asText(body.row)}` : ""));
}

function rolloutBlocks(row, body, file, asked) {
  if (row.kind === "malformed") return [problemBlock(row, body)];
  if (!isObject(body)) return [make("p", "empty", "This line is no rollout.")];
  const response = isObject(body.response) ? body.response : null;
  const output = response ? asList(response.output).filter(isObject) : [];
  const input = body.responses_create_params || (asked && asked.responses_create_params);
  return [
    factList(row, body, file), problemBlock(row, body), ...askedBlocks(input),
    response ? make("div", "turn", output.length ? "the rollout" : "no output") : null, ...conversation(output),
    ...extraFields(body, Boolean(row.kind)), ...hopsBlock(body._gym),
  ];
}
