"use strict";
// Texts and values of a rollout as blocks: prose rendered, code coloured, what a terminal wrote cleaned, JSON pretty.
// The reader's switch shows each as it is written; nothing is longer at first than a screen or two.
const MAX_SHOWN = 100000, LONG_TEXT = 3000, LONG_LINES = 40, NEXT_SHOWN = 500000;
const LONGEST_IN_JSON = 20000, MAX_IN_JSON = 200;
const reading = { raw: false, shades: false };
const TERMINAL_NAMES = /(?:^|_)(?:log|logs|stdout|stderr|output|trace|traceback|console)$/i;
const CODE_NAMES = /(?:^|_)(?:code|program|script|solution|sql|query|test|tests)$/i;
const PATCH_NAMES = /(?:^|_)(?:patch|diff)$/i;

function parsed(text) {
  if (typeof text !== "string" || !/^\s*(?:[[{]|"[^]*"\s*$)/.test(text.length > 200 ? text.slice(0, 100) + text.slice(-100) : text)) return text;
  try { return JSON.parse(text); } catch { return text; }
}

/** For display as JSON: long lists and texts say how long they are. */
function shortened(value, depth = 0) {
  if (typeof value === "string") return value.length > LONGEST_IN_JSON ? `${value.slice(0, LONGEST_IN_JSON)}… ${plural(value.length - LONGEST_IN_JSON, "more character")}` : value;
  if (Array.isArray(value)) {
    const plain = value.length > 40 && value.every((one) => typeof one !== "object" || one === null);
    const most = plain ? 12 : MAX_IN_JSON;
    const shown = value.slice(0, value.length > most && (plain || value.length > MAX_IN_JSON) ? most : value.length).map((one) => shortened(one, depth + 1));
    return shown.length < value.length ? [...shown, `… ${value.length - shown.length} more`] : shown;
  }
  if (!isObject(value)) return value;
  if (depth > 60) return "…";
  const entries = Object.entries(value);
  const shown = entries.slice(0, 1000).map(([key, one]) => [key.slice(0, 1000), shortened(one, depth + 1)]);
  return Object.fromEntries(entries.length > 1000 ? [...shown, ["…", `${entries.length - 1000} more`]] : shown);
}

/** `form`: prose, terminal, code or text. */
function textBlock(text, form = "text", language = "") {
  if (isBinary(text)) return binaryBlock(text);
  const block = writtenAs(text.slice(0, MAX_SHOWN), form, language);
  const long = text.length > LONG_TEXT || text.split("\n", LONG_LINES + 1).length > LONG_LINES;
  return long ? foldedLong(block, text) : block;
}

function writtenAs(text, form, language) {
  if (reading.raw) return make("div", "text as-written", signs(text));
  if (form === "terminal") return make("pre", "terminal", ansiNodes(text));
  if (form === "code") return codeBlock(text, language, language);
  if (form === "prose") return make("div", "prose", markdownNodes(text));
  return make("div", "text", hasEscapes(text) ? ansiNodes(text) : signs(text));
}

function foldedLong(block, text) {
  const more = make("button", "more", `show all ${plural(text.length, "character")}`);
  const node = make("div", "", make("div", "long", block), more);
  let shown = Math.min(text.length, MAX_SHOWN);
  more.onclick = () => {
    node.firstChild.classList.remove("long");
    if (node.dataset.open) { node.insertBefore(make("div", "text", signs(text.slice(shown, shown + NEXT_SHOWN))), more); shown = Math.min(text.length, shown + NEXT_SHOWN); }
    node.dataset.open = "true";
    more.textContent = `show ${plural(text.length - shown, "more character")}`;
    if (shown >= text.length) more.remove();
  };
  return node;
}

function binaryBlock(text) {
  const block = fold(`Binary: ${plural(text.length, "character")} that are not text`, "binary");
  block.ontoggle = () => { if (block.children.length === 1) block.append(make("pre", "terminal", signs(text.slice(0, 4000)), text.length > 4000 ? " …" : "")); };
  return block;
}

const jsonBlock = (value) => textBlock(JSON.stringify(shortened(value), null, 2) ?? "", "code", "json");

function fold(summary, classes, ...children) {
  return make("details", classes, make("summary", "", typeof summary === "string" ? signs(summary) : summary), ...children);
}

/** A fold whose inside is made when it is first opened. */
function lazyFold(summary, classes, inside) {
  const node = fold(summary, classes);
  node.addEventListener("toggle", () => { if (node.open && node.children.length === 1) node.append(...[guarded(inside, null)].flat(Infinity).filter(Boolean)); });
  return node;
}

/** Fields, results: objects as names and values, texts by what they are, the rest as JSON. */
function valueBlock(given, form = "text") {
  const value = parsed(given);
  if (typeof value === "string") return looksLikeDiff(value) && !reading.raw ? diffBlock(value) : textBlock(value, form);
  if (isObject(value) && Object.keys(value).length && Object.keys(value).length <= 60) return fieldList(Object.entries(value), form);
  return jsonBlock(value);
}

function fieldList(entries, form = "prose") {
  return make("dl", "fields", entries.map(([key, value]) => [make("dt", "", signs(key.slice(0, 300))), make("dd", "", fieldValue(key, value, form))]));
}

function fieldValue(key, value, form) {
  if (typeof value === "string") return fieldText(key, value, form);
  if (typeof value !== "object" || value === null) return make("code", `plain-${value === null ? "null" : typeof value}`, String(value));
  if (isObject(value.tests_status)) return testsBlock(value);
  const inside = Object.values(value);
  if (isObject(value) && inside.length && inside.length <= 12 && (inside.some((one) => isObject(one) && isObject(one.tests_status)) || inside.every((one) => typeof one !== "object" || one === null))) return fieldList(Object.entries(value), form);
  const shown = shortened(value), compact = JSON.stringify(shown);
  return compact.length <= 80 ? make("code", "", signs(compact)) : textBlock(JSON.stringify(shown, null, 2), "code", "json");
}

function fieldText(key, value, form) {
  if (!value) return make("span", "nothing", "empty");
  if (reading.raw) return textBlock(value);
  if ((PATCH_NAMES.test(key) && /^[-+@]/m.test(value)) || looksLikeDiff(value)) return diffBlock(value);
  if (TERMINAL_NAMES.test(key)) return textBlock(value, hasEscapes(value) || value.includes("\n") ? "terminal" : form);
  if (CODE_NAMES.test(key) && /\s/.test(value)) {
    const language = /sql/i.test(key) ? "sql" : guessLanguage(value);
    if (language && language !== "diff") return textBlock(value, "code", language);
  }
  return textBlock(value, form);
}

/** What a test run said: {"tests_status": {"FAIL_TO_PASS": {"success": [...], "failure": [...]}}}. */
function testsBlock(report) {
  const groups = Object.entries(report.tests_status).filter(([, one]) => isObject(one));
  const others = Object.entries(report).filter(([key]) => key !== "tests_status");
  return make("div", "tests", others.length ? fieldList(others) : null, groups.map(([name, one]) => testGroup(name, asList(one.success), asList(one.failure))));
}

function testGroup(name, passed, failed) {
  const all = passed.length + failed.length;
  const head = make("span", "", make("b", "mono", signs(name)), " ", make("span", failed.length ? "failed" : "passed", `${passed.length} of ${all} passed`));
  const line = (text, mark) => make("div", `test-${mark}`, mark === "passed" ? "✓ " : "✗ ", signs(asText(text)));
  return lazyFold(head, "", () => make("div", "mono", failed.slice(0, 500).map((one) => line(one, "failed")), passed.slice(0, 500).map((one) => line(one, "passed")), all > 1000 ? "…" : null));
}

function contentParts(content, form = "prose") {
  if (typeof content === "string") return [textBlock(content, form)];
  if (content === null || content === undefined) return [];
  if (!Array.isArray(content)) return [jsonBlock(content)];
  return content.slice(0, 1000).map((part) => contentPart(part, form));
}

function contentPart(part, form) {
  if (typeof part === "string") return textBlock(part, form);
  if (!isObject(part)) return jsonBlock(part);
  if (typeof part.text === "string") return make("div", "", shadedText(part) || textBlock(part.text, form), annotationsNote(part));
  if (typeof part.refusal === "string") return make("div", "", make("b", "failed", "refused: "), textBlock(part.refusal, form));
  const address = asText(isObject(part.image_url) ? part.image_url.url : part.image_url);
  if (address) return imageNode(address, asText(part.detail) || "of the message");
  return jsonBlock(part);
}

function annotationsNote(part) {
  const found = asList(part.annotations).filter(isObject);
  return found.length ? lazyFold(plural(found.length, "annotation"), "aside", () => jsonBlock(found)) : null;
}
