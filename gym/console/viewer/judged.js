"use strict";
// What judges were asked and said, and what the verifier added.

/** `judge_evaluations` of a reply: each with its question, its answer and the verdict that was read from it. */
function judgeBlocks(body) {
  const given = asList(body.judge_evaluations).filter(isObject);
  if (!given.length) return [];
  return [sectionHead(`Judge${given.length > 1 ? `: ${given.length} questions` : ""}`, "judge"), ...given.map((one, index) => judgeBlock(one, index, given.length))];
}

function judgeBlock(one, index, count) {
  const response = isObject(one.response) ? one.response : {};
  const output = Array.isArray(response.output) ? response.output : [];
  const answer = output.filter(isObject).filter((item) => item.type !== "reasoning").map((item) => textOf(item.content)).join("\n\n") || asText(one.judge_output ?? one.answer);
  const usage = isObject(response.usage) && typeof response.usage.total_tokens === "number" ? plural(response.usage.total_tokens, "token") : "";
  const facts = [asText(response.model), usage].filter(Boolean).join(" · ");
  const verdict = one.verdict_label ?? one.verdict ?? one.label;
  const thoughts = output.filter((item) => isObject(item) && item.type === "reasoning").map(thoughtBlock);
  const known = ["responses_create_params", "response", "verdict_label", "verdict", "label"];
  const rest = Object.entries(one).filter(([key]) => !known.includes(key));
  return make("div", "said judge", make("div", "who", count > 1 ? `judge ${index + 1} of ${count}` : "judge", verdict === undefined || verdict === null ? make("small", "", "no verdict") : make("span", "chip verdict", signs(asText(verdict))), make("small", "", signs(facts))),
    lazyFold("What it was asked", "aside", () => askedBlocks(one.responses_create_params)), thoughts, answer ? textBlock(answer, "prose") : null, rest.length ? fieldList(rest) : null);
}

/** The verifier's own fields, numbers first as chips, then patches and tests, then the rest. */
function verifierBlocks(body, names) {
  const shown = names.filter((name) => name !== "judge_evaluations" && !(name === "metadata" && repeatsFields(body.metadata, body)));
  if (!shown.length) return [];
  const rank = (name) => (name === "reason" ? 0 : typeof body[name] !== "object" && asText(body[name]).length < 200 ? 1 : 2);
  const ordered = [...shown].sort((a, b) => rank(a) - rank(b));
  return [sectionHead("Verifier", "verifier"), make("div", "said", fieldList(ordered.map((name) => [name, body[name]])))];
}

/** Metadata that says the same again. */
const repeatsFields = (metadata, body) => isObject(metadata) && Object.keys(metadata).length > 0 && Object.entries(metadata).every(([key, one]) => JSON.stringify(one) === JSON.stringify(body[key]));

function componentChips(body, names) {
  const numbers = names.filter((name) => (typeof body[name] === "number" && Number.isFinite(body[name])) || typeof body[name] === "boolean").slice(0, 8);
  const inside = isObject(body.reward_components) ? Object.entries(body.reward_components) : isObject(body.rewards) ? Object.entries(body.rewards) : [];
  const pairs = [...inside.filter(([, one]) => typeof one === "number").slice(0, 12), ...numbers.map((name) => [name, body[name]])];
  if (!pairs.length) return null;
  return make("p", "components", pairs.map(([name, value]) => make("span", "component", signs(name.slice(0, 60)), " ", make("b", "", typeof value === "boolean" ? (value ? "yes" : "no") : short(value)))));
}
