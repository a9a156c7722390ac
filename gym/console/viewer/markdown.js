"use strict";
// Markdown as DOM nodes: blocks here, what stands within a line in inline.js. Nothing is ever fetched; HTML stays text.
const DEEPEST_BLOCKS = 10, MAX_CELLS = 60, MAX_TABLE_ROWS = 1000;
const BLOCK = {
  fence: /^( {0,3})(`{3,}|~{3,})[ \t]*([^\s`]*)/,
  heading: /^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*$/,
  rule: /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/,
  quote: /^ {0,3}> ?/,
  item: /^( {0,8})([-*+•]|\d{1,9}[.)])([ \t]+|$)/,
  maths: /^ {0,3}(\$\$|\\\[|\\begin\{(?:align|equation|gather|multline|eqnarray)(\*?)\})/,
  divider: /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/,
};

function markdownNodes(text, depth = 0) {
  const lines = text.replace(/\r\n/g, "\n").replace(/\t/g, "    ").split("\n");
  const nodes = [], reader = { lines, at: 0, depth };
  while (reader.at < lines.length) {
    if (!lines[reader.at].trim()) { reader.at += 1; continue; }
    nodes.push(blockAt(reader));
  }
  return nodes;
}

function blockAt(reader) {
  const line = reader.lines[reader.at];
  if (BLOCK.fence.test(line)) return fencedBlock(reader);
  if (BLOCK.heading.test(line)) return headingBlock(reader);
  if (BLOCK.rule.test(line)) { reader.at += 1; return make("hr", ""); }
  if (BLOCK.maths.test(line)) return displayMaths(reader);
  if (reader.depth < DEEPEST_BLOCKS && BLOCK.quote.test(line)) return quoteBlock(reader);
  if (reader.depth < DEEPEST_BLOCKS && BLOCK.item.test(line)) return listBlock(reader);
  if (isTableAt(reader)) return tableBlock(reader);
  return paragraphBlock(reader);
}

function fencedBlock(reader) {
  const [, indent, mark, language] = BLOCK.fence.exec(reader.lines[reader.at]);
  const start = (reader.at += 1);
  const closing = (line) => line.trimStart().startsWith(mark) && !line.trim().replaceAll(mark[0], "");
  while (reader.at < reader.lines.length && !closing(reader.lines[reader.at])) reader.at += 1;
  const body = reader.lines.slice(start, reader.at).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line)).join("\n");
  reader.at += 1;
  if (knownLanguage(language) === "diff" || (!language && looksLikeDiff(body))) return diffBlock(body);
  return codeBlock(body, language || guessLanguage(body), language);
}

/** A block of code with its language and a button that copies it. */
function codeBlock(text, language, name = language) {
  const copy = make("button", "copy-code", "copy");
  copy.onclick = () => copyText(text, copy);
  return make("div", "code-block", make("div", "code-head", make("span", "", signs(asText(name).slice(0, 40))), copy), make("pre", "code", highlightCode(text, language)));
}

function headingBlock(reader) {
  const [, marks, text] = BLOCK.heading.exec(reader.lines[reader.at]);
  reader.at += 1;
  return make(`h${Math.min(6, marks.length + 2)}`, "md-heading", inlineNodes(text));
}

function quoteBlock(reader) {
  const inside = [];
  for (; reader.at < reader.lines.length && BLOCK.quote.test(reader.lines[reader.at]); reader.at += 1) inside.push(reader.lines[reader.at].replace(BLOCK.quote, ""));
  return make("blockquote", "", markdownNodes(inside.join("\n"), reader.depth + 1));
}

function displayMaths(reader) {
  const line = reader.lines[reader.at], open = BLOCK.maths.exec(line)[1];
  const close = open === "$$" ? "$$" : open === "\\[" ? "\\]" : open.replace("begin", "end");
  const rest = reader.lines.slice(reader.at, reader.at + 200).join("\n");
  const from = rest.indexOf(open) + open.length, end = rest.indexOf(close, from);
  if (end < 0 || /\n[ ]*\n[ ]*\n/.test(rest.slice(from, end))) return paragraphBlock(reader);
  const tail = rest.slice(end + close.length).split("\n", 1)[0];
  if (tail.trim() && open !== "$$" && open !== "\\[") return paragraphBlock(reader);
  const source = open.startsWith("\\begin") ? rest.slice(0, end + close.length) : rest.slice(from, end);
  if (tail.trim().length > 3) return paragraphBlock(reader);
  reader.at += rest.slice(0, end + close.length).split("\n").length;
  return make("div", "maths", mathsNode(source, true) || make("code", "unread", signs(rest.slice(0, end + close.length))), inlineNodes(tail.trim()));
}

function listBlock(reader) {
  const first = BLOCK.item.exec(reader.lines[reader.at]);
  const isOrdered = /\d/.test(first[2]), node = make(isOrdered ? "ol" : "ul", "");
  if (isOrdered && Number.parseInt(first[2], 10) !== 1) node.start = Number.parseInt(first[2], 10);
  while (reader.at < reader.lines.length) {
    const found = BLOCK.item.exec(reader.lines[reader.at]);
    if (!found || /\d/.test(found[2]) !== isOrdered || found[1].length > first[1].length + 3 || BLOCK.rule.test(reader.lines[reader.at])) break;
    node.append(listItem(reader, found));
  }
  return node;
}

function listItem(reader, found) {
  const indent = found[1].length + found[2].length + Math.min(Math.max(found[3].length, 1), 4);
  const inside = [reader.lines[reader.at].slice(found[0].length)];
  for (reader.at += 1; reader.at < reader.lines.length; reader.at += 1) {
    const line = reader.lines[reader.at], next = reader.lines[reader.at + 1] ?? "";
    const isInside = line.startsWith(" ".repeat(Math.min(indent, found[1].length + 2)));
    if (!line.trim() ? !next.startsWith(" ".repeat(found[1].length + 2)) : !isInside && (BLOCK.item.test(line) || startsBlock(line) || !inside.at(-1).trim())) break;
    inside.push(isInside ? line.slice(Math.min(indent, line.length - line.trimStart().length)) : line.trimStart());
  }
  while (reader.at < reader.lines.length && !reader.lines[reader.at].trim() && BLOCK.item.test(reader.lines[reader.at + 1] ?? "")) reader.at += 1;
  const task = /^\[([ xX])\] /.exec(inside[0]);
  if (task) inside[0] = inside[0].slice(4);
  return make("li", task ? "task" : "", task ? (task[1] === " " ? "☐ " : "☑ ") : "", tightBlocks(markdownNodes(inside.join("\n"), reader.depth + 1)));
}

/** A lone paragraph of an item needs no space around it. */
const tightBlocks = (nodes) => (nodes.length && nodes[0].tagName === "P" ? [make("span", "tight", ...nodes[0].childNodes), ...nodes.slice(1)] : nodes);

const startsBlock = (line) => BLOCK.fence.test(line) || BLOCK.heading.test(line) || BLOCK.rule.test(line) || BLOCK.quote.test(line) || BLOCK.maths.test(line);

function isTableAt(reader) {
  const [head, divider] = [reader.lines[reader.at], reader.lines[reader.at + 1] ?? ""];
  return head.includes("|") && divider.includes("-") && divider.length < 4000 && BLOCK.divider.test(divider) && (divider.includes("|") || cellsOf(head).length === 1) && cellsOf(divider).length <= cellsOf(head).length + 1;
}

function tableBlock(reader) {
  const sides = cellsOf(reader.lines[reader.at + 1]).map((one) => (/^:.*:$/.test(one) ? "center" : one.endsWith(":") ? "right" : ""));
  const row = (line, tag) => make("tr", "", cellsOf(line).slice(0, MAX_CELLS).map((text, index) => make(tag, sides[index] ?? "", inlineNodes(text))));
  const head = row(reader.lines[reader.at], "th"), body = [];
  for (reader.at += 2; reader.at < reader.lines.length && reader.lines[reader.at].includes("|") && body.length < MAX_TABLE_ROWS; reader.at += 1) body.push(row(reader.lines[reader.at], "td"));
  return make("div", "table", make("table", "", make("thead", "", head), make("tbody", "", body)));
}

/** Split at each | that stands neither behind a \ nor within code. */
function cellsOf(line) {
  const cells = [""];
  let inCode = false;
  for (let index = 0; index < line.length; index += 1) {
    const one = line[index];
    if (one === "\\" && line[index + 1] === "|") { cells[cells.length - 1] += "|"; index += 1; continue; }
    if (one === "`") inCode = !inCode && line.indexOf("`", index + 1) > 0;
    if (one === "|" && !inCode) cells.push("");
    else cells[cells.length - 1] += one;
  }
  const trimmed = cells.map((cell) => cell.trim());
  if (trimmed.length > 1 && !trimmed[0]) trimmed.shift();
  if (trimmed.length > 1 && !trimmed.at(-1)) trimmed.pop();
  return trimmed;
}

function paragraphBlock(reader) {
  const start = reader.at;
  for (reader.at += 1; reader.at < reader.lines.length; reader.at += 1) {
    const line = reader.lines[reader.at];
    if (!line.trim() || startsBlock(line) || (BLOCK.item.test(line) && reader.depth < DEEPEST_BLOCKS) || isTableAt(reader)) break;
  }
  return make("p", "", inlineNodes(reader.lines.slice(start, reader.at).join("\n")));
}
