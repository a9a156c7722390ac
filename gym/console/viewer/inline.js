"use strict";
// What stands within a line of Markdown: code, maths, emphasis, links (as text with their address), images that came along.
const LONGEST_INLINE = 20000, FARTHEST = 4000, DEEPEST_INLINE = 6;
const SPECIAL = /[\\`*_~$[!<]/g;
const IMAGE_DATA = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+$/;

function inlineNodes(text, depth = 0) {
  if (text.length > LONGEST_INLINE || depth > DEEPEST_INLINE) return signs(text);
  const nodes = [], dead = new Set();
  let plain = "", at = 0;
  const flush = () => { if (plain) nodes.push(...signs(plain)); plain = ""; };
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const next = SPECIAL.exec(text);
    plain += text.slice(at, next ? next.index : text.length);
    if (!next) break;
    const found = inlineAt(text, next.index, depth, dead);
    if (found) { flush(); nodes.push(...found.nodes); at = found.end; }
    else { plain += text[next.index]; at = next.index + 1; }
  }
  flush();
  return nodes;
}

/** {nodes, end} of what begins here, or null: then the character is itself. `dead`: what is known to have no end. */
function inlineAt(text, at, depth, dead) {
  const one = text[at];
  if (one === "\\") return escapedAt(text, at, dead);
  if (one === "`") return codeAt(text, at, dead);
  if (one === "$") return dollarsAt(text, at, dead);
  if (one === "[" || one === "!") return linkAt(text, at, depth);
  if (one === "<") return addressAt(text, at);
  return emphasisAt(text, at, depth, dead);
}

function escapedAt(text, at, dead) {
  const next = text[at + 1];
  if (next === "(" || next === "[") {
    const close = next === "(" ? "\\)" : "\\]", end = closingOf(text, close, at + 2, dead);
    return end < 0 ? null : mathsSpan(text, at, at + 2, end, end + 2, next === "[");
  }
  if (text.startsWith("\\boxed{", at)) {
    const end = closingBrace(text, at + 7);
    return end < 0 ? null : mathsSpan(text, at, at, end + 1, end + 1, false);
  }
  return next && /[!-/:-@[-`{-~]/.test(next) ? { nodes: [next], end: at + 2 } : null;
}

function codeAt(text, at, dead) {
  const mark = /^`+/.exec(text.slice(at, at + 64))[0];
  let end = at;
  do { end = closingOf(text, mark, end === at ? at + mark.length : end + mark.length, dead); } while (end >= 0 && (text[end + mark.length] === "`" || text[end - 1] === "`"));
  if (end < 0) return { nodes: [mark], end: at + mark.length };
  return { nodes: [make("code", "", signs(text.slice(at + mark.length, end).replace(/^ (.*\S.*) $/s, "$1")))], end: end + mark.length };
}

/** A price is not maths: no blank stands inside the dollars, and no digit behind them. */
function dollarsAt(text, at, dead) {
  if (text[at + 1] === "$") {
    const end = closingOf(text, "$$", at + 2, dead);
    return end < 0 ? null : mathsSpan(text, at, at + 2, end, end + 2, true);
  }
  if (/\s/.test(text[at + 1] ?? " ")) return null;
  for (let end = closingOf(text, "$", at + 1, dead); end >= 0; end = closingOf(text, "$", end + 1, dead)) {
    if (text[end - 1] === "\\") continue;
    const isPrice = /\s/.test(text[end - 1]) || /\d/.test(text[end + 1] ?? "");
    return isPrice || text.slice(at, end).includes("\n\n") ? null : mathsSpan(text, at, at + 1, end, end + 1, false);
  }
  return null;
}

function mathsSpan(text, from, start, stop, end, display) {
  const node = mathsNode(text.slice(start, stop), display) || make("code", "unread", signs(text.slice(from, end)));
  return { nodes: [display ? make("div", "maths", node) : node], end };
}

/** Where the mark comes next, not too far away; -1. */
function closingOf(text, mark, from, dead) {
  if (dead.has(mark)) return -1;
  const end = text.indexOf(mark, from);
  if (end < 0) dead.add(mark);
  return end - from > FARTHEST ? -1 : end;
}

function closingBrace(text, from) {
  for (let at = from, depth = 1; at < Math.min(text.length, from + FARTHEST); at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === "{") depth += 1;
    else if (text[at] === "}" && (depth -= 1) === 0) return at;
  }
  return -1;
}

const EMPHASIS = [["***", "strong"], ["___", "strong"], ["**", "strong"], ["__", "strong"], ["~~", "s"], ["*", "em"], ["_", "em"]];

function emphasisAt(text, at, depth, dead) {
  const [mark, tag] = EMPHASIS.find(([one]) => text.startsWith(one, at)) || [];
  if (!mark || /\s/.test(text[at + mark.length] ?? " ")) return null;
  const inWord = (index) => mark[0] === "_" && /[\p{L}\p{N}]/u.test(text[index] ?? " ");
  if (inWord(at - 1)) return null;
  for (let end = closingOf(text, mark, at + mark.length + 1, dead), tries = 0; end >= 0 && tries < 20; tries += 1) {
    if (!/\s|\\/.test(text[end - 1]) && !inWord(end + mark.length) && !(mark.length === 1 && (text[end + 1] === mark || text[end - 1] === mark))) {
      const inside = inlineNodes(text.slice(at + mark.length, end), depth + 1);
      return { nodes: [mark.length === 3 ? make("strong", "", make("em", "", inside)) : make(tag, "", inside)], end: end + mark.length };
    }
    end = closingOf(text, mark, end + mark.length, dead);
  }
  return null;
}

/** A link is its text and its address, and leads nowhere: a rollout may name any address. */
function linkAt(text, at, depth) {
  const isImage = text[at] === "!";
  if (isImage && text[at + 1] !== "[") return null;
  const start = at + (isImage ? 2 : 1), middle = text.slice(start, start + 1000).indexOf("](");
  if (middle < 0) return null;
  const from = start + middle + 2, end = text.indexOf(")", from);
  if (end < 0 || (!isImage && end - from > FARTHEST)) return null;
  const label = text.slice(start, start + middle), address = text.slice(from, end).trim().replace(/\s+["'(][^]*$/, "");
  if (/\n\n/.test(label) || (!isImage && /\s/.test(address))) return null;
  return { nodes: [isImage ? imageNode(address, label) : make("span", "link", inlineNodes(label, depth + 1), " ", make("span", "address", signs(address)))], end: end + 1 };
}

function addressAt(text, at) {
  const found = /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/.exec(text.slice(at, at + 2020));
  return found ? { nodes: [make("span", "address", signs(found[1]))], end: at + found[0].length } : null;
}

/** Only what came along as data is shown; any other image is named. */
function imageNode(address, label) {
  if (!IMAGE_DATA.test(address)) return make("span", "image-named", "image ", signs(label), " ", make("span", "address", signs(address.slice(0, 300))));
  const image = make("img", "part");
  image.src = address;
  image.alt = label || "image of the rollout";
  return image;
}
