"use strict";
// Log-probabilities as shades: the less likely a token was, the darker it stands.
const TOKEN_FIELDS = ["prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts"];
const MAX_TOKENS = 20000;

/** [{text, logprob, others}] of a part of a message; null where there are none. */
function tokensOfPart(part) {
  const found = asList(part.logprobs).filter((one) => isObject(one) && typeof one.logprob === "number");
  if (!found.length) return null;
  return found.slice(0, MAX_TOKENS).map((one) => ({ text: asText(one.token), logprob: one.logprob, others: asList(one.top_logprobs).filter(isObject) }));
}

function tokensOfItem(item) {
  const probabilities = asList(item.generation_log_probs), ids = asList(item.generation_token_ids);
  const texts = asList(item.generation_tokens ?? item.generation_token_strs);
  if (!probabilities.length || !probabilities.some((one) => typeof one === "number")) return null;
  return probabilities.slice(0, MAX_TOKENS).map((logprob, index) => ({ text: typeof texts[index] === "string" ? texts[index] : "", id: ids[index], logprob: typeof logprob === "number" ? logprob : 0, others: [] }));
}

/** The text itself in shades, when the reader asked for them and its tokens spell it. */
function shadedText(part) {
  if (!reading.shades || reading.raw) return null;
  const tokens = tokensOfPart(part);
  return tokens && tokens.map((one) => one.text).join("") === part.text ? shadedTokens(tokens) : null;
}

const shadedTokens = (tokens) => make("div", "shaded text", tokens.map(shadedToken));

function shadedToken(one) {
  const node = make("span", "token", signs(one.text || `${asText(one.id)} `));
  node.style.setProperty("--unlikely", Math.min(1, Math.max(0, 1 - Math.exp(one.logprob))).toFixed(3));
  const others = one.others.slice(0, 5).map((each) => `${JSON.stringify(asText(each.token))} ${percent(each.logprob)}`).join(", ");
  node.title = `${one.text ? JSON.stringify(one.text) : `token ${asText(one.id)}`}: ${percent(one.logprob)} (${short(one.logprob)})${others ? `; likely: ${others}` : ""}`;
  return node;
}

const percent = (logprob) => (typeof logprob === "number" ? `${short(Math.exp(logprob) * 100)} %` : "");

/** What is known of an item's tokens, short; its log-probabilities unfold. */
function tokensNote(item) {
  const there = TOKEN_FIELDS.some((name) => Array.isArray(item[name]) && item[name].length);
  const parts = asList(item.content).filter(isObject).map(tokensOfPart).filter(Boolean).flat();
  const tokens = tokensOfItem(item) || (parts.length ? parts : null);
  if (!there && !tokens) return null;
  const count = asList(item.generation_token_ids).length || (tokens ? tokens.length : 0);
  if (!tokens) return make("small", "", plural(count, "token"));
  const mean = tokens.reduce((sum, one) => sum + one.logprob, 0) / tokens.length;
  const lowest = tokens.reduce((least, one) => Math.min(least, one.logprob), 0);
  return make("small", "", `${plural(count, "token")}, mean logprob ${short(mean)}, lowest ${short(lowest)}`);
}

function tokensFold(item) {
  const tokens = tokensOfItem(item) || asList(item.content).filter(isObject).map(tokensOfPart).find(Boolean);
  return tokens ? lazyFold("Log-probabilities", "aside shades", () => shadedTokens(tokens)) : null;
}
