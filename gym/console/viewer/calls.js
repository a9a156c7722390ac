"use strict";
// A tool call beside its result: commands with their exit codes, edits as diffs, code coloured, agents that were asked nested.
const COMMAND_FIELDS = ["command", "cmd", "bash_command", "script", "keystrokes"];
const EXIT_FIELDS = ["exit_code", "returncode", "return_code", "exit_status", "exitCode"];
const OUTPUT_FIELDS = ["output", "stdout", "stderr", "exception_info", "error"];

function callBlock(item, output, context) {
  const value = parsed(item.arguments ?? item.input ?? item.action ?? "");
  const exit = output ? exitOf(output) : null;
  const name = asText(item.name) || asText(item.type).replace(/_call$/, "") || "a tool";
  const asked = asList(context.agentCalls).filter((one) => isObject(one) && one.call_id !== undefined && one.call_id === item.call_id);
  const call = make("div", "", make("div", "who", "calls ", make("b", "", signs(name)), tokensNote(item), stepFacts(item, context)), argumentsBlock(name, value), tokensFold(item));
  const result = make("div", "", make("div", "who", output ? "result" : "no result", exit === null ? null : exitChip(exit), output ? stepFacts(output, context) : null), output ? outputBlock(output, asked.length ? "prose" : "terminal") : null);
  return make("div", "said call", call, result, asked.map((one) => agentCallBlock(one, context)));
}

function argumentsBlock(name, value) {
  if (reading.raw || !isObject(value)) return typeof value === "string" ? textBlock(value, looksLikeDiff(value) ? "code" : "text", "diff") : jsonBlock(value);
  const given = { ...value }, blocks = [];
  const take = (key) => { const text = given[key]; delete given[key]; return text; };
  const command = COMMAND_FIELDS.find((key) => typeof given[key] === "string");
  if (command && !("path" in given) && !("old_str" in given)) blocks.push(textBlock(take(command), "code", "shell"));
  for (const [old, now] of [["old_str", "new_str"], ["old_string", "new_string"], ["old", "new"]]) {
    if (typeof given[old] === "string" && typeof given[now] === "string") blocks.push(changeBlock(take(old), take(now)));
  }
  const path = asText(given.path ?? given.file_path ?? given.filename);
  for (const key of ["file_text", "content", "contents", "new_str"]) if (path && typeof given[key] === "string") blocks.push(textBlock(take(key), "code", languageOfPath(path) || guessLanguage(asText(value[key]))));
  for (const key of ["code", "source", "python", "program"]) if (typeof given[key] === "string") blocks.push(textBlock(take(key), "code", guessLanguage(asText(value[key])) || (/py/i.test(name + key) ? "python" : "javascript")));
  for (const key of ["sql", "query"]) if (typeof given[key] === "string" && /^\s*(?:select|with|insert|update|create|delete)\b/i.test(given[key])) blocks.push(textBlock(take(key), "code", "sql"));
  for (const key of ["patch", "diff", "input"]) if (typeof given[key] === "string" && looksLikeDiff(given[key])) blocks.push(diffBlock(take(key)));
  for (const key of Object.keys(given)) if (given[key] === null) delete given[key];
  const rest = Object.entries(given);
  return make("div", "", rest.length ? fieldList(rest, "text") : blocks.length ? null : make("span", "nothing", "no arguments"), blocks);
}

function outputBlock(item, form = "terminal") {
  if (Array.isArray(item.output)) return make("div", "", contentParts(item.output, form));
  const value = parsed(item.output ?? item.content ?? "");
  if (value === "") return make("span", "nothing", "empty");
  if (isObject(value) && !reading.raw && OUTPUT_FIELDS.some((key) => typeof value[key] === "string")) return commandOutput(value);
  return valueBlock(value, form);
}

/** {"output": "...", "exit_code": 1}: what it wrote; the code stands in the head. */
function commandOutput(value) {
  const written = OUTPUT_FIELDS.filter((key) => typeof value[key] === "string" && value[key]);
  const rest = Object.entries(value).filter(([key]) => !written.includes(key) && !EXIT_FIELDS.includes(key) && value[key] !== "" && value[key] !== null);
  const blocks = written.map((key) => [written.length > 1 ? make("div", "who", key) : null, looksLikeDiff(value[key]) ? diffBlock(value[key]) : textBlock(value[key], "terminal")]);
  return make("div", "", blocks.length ? blocks : make("span", "nothing", "no output"), rest.length ? fieldList(rest, "terminal") : null);
}

/** The exit code that a result tells of, in one of the usual forms; null. */
function exitOf(item) {
  const value = parsed(item.output ?? item.content);
  if (isObject(value)) {
    const key = EXIT_FIELDS.find((one) => Number.isInteger(value[one]));
    return key ? value[key] : null;
  }
  const text = typeof value === "string" ? value : asList(value).map((part) => (isObject(part) ? asText(part.text) : "")).join("\n");
  const found = /(?:\[|<|^|\n)(?:exit[ _-]?code|returncode|exit status)\]?[>: ]\s*(-?\d{1,5})\b/i.exec(text.slice(-400)) || /^<returncode>(-?\d{1,5})</.exec(text);
  return found ? Number(found[1]) : null;
}

const exitChip = (code) => make("span", code === 0 ? "chip exit" : "chip bad exit", `exit ${code}`);

/** An agent that was asked as a tool: its own conversation, within. */
function agentCallBlock(one, context) {
  const response = isObject(one.response) ? one.response : {};
  const output = asList(response.output), tokens = isObject(response.usage) ? response.usage.total_tokens : undefined;
  const head = [asText(one.agent) || asText(one.tool) || "an agent", plural(output.length, "item"), typeof tokens === "number" ? plural(tokens, "token") : ""].filter(Boolean).join(" · ");
  return make("div", "nested", lazyFold(`Sub-agent ${head}`, "", () => nestedConversation(output, response, context)));
}

function nestedConversation(output, response, context) {
  if (context.depth >= 8) return jsonBlock(output);
  return conversationBlock(output, { depth: context.depth + 1, agentCalls: response.agent_calls });
}

/** Conversations that stand beside the last one: of sub-agents, or before a compaction. */
function otherSequences(response, context) {
  return asList(response.other_sequences).filter(isObject).map((one, index) => {
    const params = isObject(one.responses_create_params) ? one.responses_create_params : {};
    const output = asList(one.output), tokens = isObject(one.usage) ? one.usage.total_tokens : undefined;
    const head = `Conversation ${index + 1} beside it · ${plural(output.length, "item")}${typeof tokens === "number" ? ` · ${plural(tokens, "token")}` : ""}`;
    return lazyFold(head, "said nested", () => [...askedBlocks(params), nestedConversation(output, one, context)]);
  });
}
