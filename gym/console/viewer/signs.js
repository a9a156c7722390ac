"use strict";
// Characters that a reader does not see, or that turn the text around, are shown by their name.
const HIDDEN = /(?:[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff]|\r(?!\n)|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udc7f])+/g;
const TURNING = { 0x200e: "LRM", 0x200f: "RLM", 0x061c: "ALM", 0x202a: "LRE", 0x202b: "RLE", 0x202c: "PDF", 0x202d: "LRO", 0x202e: "RLO", 0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI", 0x200b: "ZWSP", 0xfeff: "BOM", 0x00ad: "SHY", 0x2060: "WJ", 0x2028: "LSEP", 0x2029: "PSEP" };
const BINARY_SAMPLE = 4096, BINARY_SHARE = 0.1, LONGEST_SIGN = 400;

/** The text as nodes: what is hidden stands in a span of its own. */
function signs(text) {
  if (text.search(HIDDEN) < 0) return [text];
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > end) nodes.push(text.slice(end, found.index));
    nodes.push(signSpan(found[0]));
    end = found.index + found[0].length;
  }
  return end < text.length ? [...nodes, text.slice(end)] : nodes;
}

function signSpan(run) {
  const shown = [...run.slice(0, LONGEST_SIGN)].map(signName).join("");
  const node = make("span", "sign", run.length > LONGEST_SIGN ? `${shown}… ${plural(run.length - LONGEST_SIGN, "more hidden character")}` : shown);
  node.title = [...run.slice(0, 8)].map((one) => `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`).join(" ");
  return node;
}

function signName(character) {
  const code = character.codePointAt(0);
  if (code < 0x20 || code === 0x7f) return `\\x${code.toString(16).padStart(2, "0")}`; // fonts lack the pictures of these
  if (code >= 0xe0000 && code <= 0xe007f) return `[tag ${code > 0xe0020 ? String.fromCodePoint(code - 0xe0000) : code.toString(16)}]`;
  return TURNING[code] ? `[${TURNING[code]}]` : `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
}

/** Bytes that were read as a text: more than a tenth of it is not text. */
function isBinary(text) {
  const sample = text.slice(0, BINARY_SAMPLE);
  if (sample.length < 8) return false;
  const odd = sample.match(/[\u0000-\u0007\u000e-\u001a\u001c-\u001f\u007f-\u009f\ufffd]/g);
  return odd !== null && odd.length > sample.length * BINARY_SHARE;
}
