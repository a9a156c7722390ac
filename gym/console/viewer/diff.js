"use strict";
// Patches: a block a file, what came and went in colours, and within a pair of lines the part that changed.
const MAX_DIFF_LINES = 2000, MAX_COMPARED = 300;

const DIFF_BEGINS = /^(?:diff --git |Index: |\*\*\* Begin Patch|--- [^\n]*\n\+\+\+ |@@ -\d+(?:,\d+)? \+\d+)/m;

/** A patch within a fence is a part of a text, and drawn where the text is. */
function looksLikeDiff(text) {
  const head = text.slice(0, 20000), begin = head.search(DIFF_BEGINS);
  return begin >= 0 && !/^ {0,3}(?:`{3}|~{3})/m.test(head.slice(0, begin));
}

function diffBlock(text) {
  const files = filesOfDiff(text);
  return make("div", "diff", files.map((file) => fileOfDiff(file, files.length > 12)));
}

/** [{name, rows}]; a hunk's own counts say which lines are its body, so that a removed "-- x" is not a header. */
function filesOfDiff(text) {
  const files = [], lines = text.replace(/\r\n/g, "\n").replace(/\n$/, "").split("\n");
  const state = { file: null, before: 0, after: 0, oldLeft: 0, newLeft: 0, loose: false };
  const begin = (name, loose) => { state.file = { name, rows: [] }; files.push(state.file); Object.assign(state, { oldLeft: 0, newLeft: 0, before: 0, after: 0, loose }); };
  lines.forEach((line, index) => {
    const git = /^diff --git (?:"?a\/.*?)? ?"?b\/(.*?)"?$/.exec(line);
    const named = /^(?:Index: |\*\*\* (?:Add|Update|Delete) File: )(.*)$/.exec(line);
    if (git || named) return begin((git || named)[1], Boolean(named) && line[0] === "*");
    if (state.oldLeft > 0 || state.newLeft > 0) return state.file.rows.push(bodyOfDiff(line, state));
    if (line.startsWith("--- ") && (lines[index + 1] || "").startsWith("+++ ")) {
      const name = [lines[index + 1], line].map((one) => one.slice(4).replace(/^[ab]\/|\t.*$/g, "")).find((one) => one !== "/dev/null");
      if (!state.file || state.file.rows.some((row) => row.kind === "hunk")) begin(name, false);
      else state.file.name = state.file.name || name;
      return null;
    }
    if (/^(?:\+\+\+ |index [0-9a-f]+\.\.|\*\*\* (?:Begin|End) Patch)/.test(line) && !(state.loose && line.startsWith("+"))) return null;
    if (!state.file) { if (!line.trim()) return null; begin("", false); }
    return state.file.rows.push(line.startsWith("@@") ? hunkOfDiff(line, state) : state.loose && /^[-+ ]/.test(line) ? bodyOfDiff(line, state) : { kind: "about", text: line });
  });
  return files;
}

function hunkOfDiff(line, state) {
  const found = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
  if (found) Object.assign(state, { before: Number(found[1]), oldLeft: Number(found[2] ?? 1), after: Number(found[3]), newLeft: Number(found[4] ?? 1) });
  else state.loose = true;
  return { kind: "hunk", text: line };
}

function bodyOfDiff(line, state) {
  if (line.startsWith("\\")) return { kind: "about", text: line };
  const kind = line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "same";
  const row = { kind, text: line.slice(1) };
  if (kind !== "add") { row.before = state.before || ""; state.before += state.before ? 1 : 0; state.oldLeft -= 1; }
  if (kind !== "del") { row.after = state.after || ""; state.after += state.after ? 1 : 0; state.newLeft -= 1; }
  return row;
}

function fileOfDiff({ name, rows }, folded) {
  const count = (kind) => rows.filter((row) => row.kind === kind).length;
  const counts = make("span", "counts", make("ins", "", `+${count("add")}`), " ", make("del", "", `\u2212${count("del")}`));
  const node = make("details", "", make("summary", "", make("b", "mono", signs(name || "patch")), " ", counts));
  node.open = !folded;
  node.append(linesOfDiff(rows));
  return node;
}

function linesOfDiff(rows) {
  markPairs(rows);
  const body = make("div", "lines", rows.slice(0, MAX_DIFF_LINES).map(rowOfDiff));
  if (rows.length <= MAX_DIFF_LINES) return body;
  const more = make("button", "more", `show ${plural(rows.length - MAX_DIFF_LINES, "more line")}`);
  more.onclick = () => more.replaceWith(...rows.slice(MAX_DIFF_LINES).map(rowOfDiff));
  body.append(more);
  return body;
}

function rowOfDiff(row) {
  const parts = row.changed ? [signs(row.text.slice(0, row.changed[0])), make("mark", "", signs(row.text.slice(...row.changed))), signs(row.text.slice(row.changed[1]))] : signs(row.text);
  const node = make("div", `line ${row.kind}`, make("span", "line-text", parts));
  node.dataset.before = row.before ?? "";
  node.dataset.after = row.after ?? "";
  return node;
}

/** A run of removed lines before as many added ones: each pair shows what changed within the line. */
function markPairs(rows) {
  for (let index = 0; index < rows.length; index += 1) {
    if (rows[index].kind !== "del") continue;
    let middle = index, end;
    while (middle < rows.length && rows[middle].kind === "del") middle += 1;
    for (end = middle; end < rows.length && rows[end].kind === "add"; end += 1);
    if (end - middle === middle - index) for (let each = 0; each < middle - index; each += 1) markChange(rows[index + each], rows[middle + each]);
    index = Math.max(index, end - 1);
  }
}

function markChange(gone, come) {
  const [start, stop] = commonEnds(gone.text, come.text);
  if (start + stop < Math.min(gone.text.length, come.text.length) * 0.3) return;
  gone.changed = [start, gone.text.length - stop];
  come.changed = [start, come.text.length - stop];
}

/** How many elements are equal at the start, and of the rest at the end. */
function commonEnds(one, other) {
  const most = Math.min(one.length, other.length);
  let start = 0, stop = 0;
  while (start < most && one[start] === other[start]) start += 1;
  while (stop < most - start && one[one.length - 1 - stop] === other[other.length - 1 - stop]) stop += 1;
  return [start, stop];
}

/** An edit given as two texts. */
function changeBlock(before, after) {
  return make("div", "diff", linesOfDiff(compareLines(before.split("\n"), after.split("\n"))));
}

function compareLines(old, now) {
  const [start, stop] = commonEnds(old, now);
  const gone = old.slice(start, old.length - stop), come = now.slice(start, now.length - stop);
  const same = (text) => ({ kind: "same", text });
  return [...old.slice(0, start).map(same), ...middleOfDiff(gone, come), ...old.slice(old.length - stop).map(same)];
}

/** By the longest common subsequence where that is small; else all of it went and came. */
function middleOfDiff(gone, come) {
  const rows = [];
  if (gone.length > MAX_COMPARED || come.length > MAX_COMPARED) return [...gone.map((text) => ({ kind: "del", text })), ...come.map((text) => ({ kind: "add", text }))];
  const longest = Array.from({ length: gone.length + 1 }, () => new Uint16Array(come.length + 1));
  for (let i = gone.length - 1; i >= 0; i -= 1) for (let j = come.length - 1; j >= 0; j -= 1) longest[i][j] = gone[i] === come[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  let i = 0, j = 0;
  while (i < gone.length || j < come.length) {
    if (i < gone.length && j < come.length && gone[i] === come[j]) { rows.push({ kind: "same", text: gone[i] }); i += 1; j += 1; }
    else if (j >= come.length || (i < gone.length && longest[i + 1][j] >= longest[i][j + 1])) { rows.push({ kind: "del", text: gone[i] }); i += 1; }
    else { rows.push({ kind: "add", text: come[j] }); j += 1; }
  }
  return rows;
}
