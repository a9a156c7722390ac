"use strict";
// What a terminal would show: colours as classes, other escape sequences left out, overwritten lines as they ended.
const ESCAPES = /(?:\x1b\[|\x9b)([0-9;:?<=>]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]{0,4096}\x1b\\|\x1b[ -/]*[0-Z\\^-~]/g;
const STYLES = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 9: "struck" };
const UNSTYLES = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 29: ["struck"] };

const hasEscapes = (text) => /[\x1b\x9b\x08]|\r(?!\n)/.test(text);

function ansiNodes(text) {
  if (!hasEscapes(text)) return signs(text);
  const shown = settledLines(text), nodes = [];
  const pen = { front: "", back: "", styles: new Set(), inverse: false };
  let end = 0;
  for (const found of shown.matchAll(ESCAPES)) {
    if (found.index > end) nodes.push(inked(shown.slice(end, found.index), pen));
    if (found[2] === "m") changePen(pen, found[1]);
    end = found.index + found[0].length;
  }
  if (end < shown.length) nodes.push(inked(shown.slice(end), pen));
  return nodes;
}

function settledLines(text) {
  const lines = text.replace(/\r+\n/g, "\n").split("\n");
  return lines.map((line) => struckOut(line.includes("\r") ? line.split("\r").filter(Boolean).pop() ?? "" : line)).join("\n");
}

function struckOut(line) {
  if (!line.includes("\b")) return line;
  const kept = [];
  for (const one of line) {
    if (one === "\b") kept.pop();
    else kept.push(one);
  }
  return kept.join("");
}

function inked(text, pen) {
  const [front, back] = pen.inverse ? [pen.back || "inverse", pen.front || "inverse"] : [pen.front, pen.back];
  if (!front && !back && !pen.styles.size) return signs(text);
  const named = [Number.isInteger(front) || front === "inverse" ? `ansi-${front}` : "", Number.isInteger(back) || back === "inverse" ? `ansi-on-${back}` : ""];
  const node = make("span", [...named, ...[...pen.styles].map((one) => `ansi-${one}`)].filter(Boolean).join(" "), signs(text));
  if (Array.isArray(front)) node.style.setProperty("color", `rgb(${front.join(" ")})`);
  if (Array.isArray(back)) node.style.setProperty("background-color", `rgb(${back.join(" ")})`);
  return node;
}

function changePen(pen, parameters) {
  const numbers = parameters.split(/[;:]/).slice(0, 64).map((one) => Number.parseInt(one || "0", 10) || 0);
  while (numbers.length) {
    const one = numbers.shift();
    if (one === 0) Object.assign(pen, { front: "", back: "", styles: new Set(), inverse: false });
    else if (STYLES[one]) pen.styles.add(STYLES[one]);
    else if (UNSTYLES[one]) UNSTYLES[one].forEach((style) => pen.styles.delete(style));
    else if (one === 7 || one === 27) pen.inverse = one === 7;
    else if (one === 38 || one === 48) pen[one === 38 ? "front" : "back"] = wideColour(numbers);
    else if (one === 39 || one === 49) pen[one === 39 ? "front" : "back"] = "";
    else if (one >= 30 && one <= 37) pen.front = one - 30;
    else if (one >= 90 && one <= 97) pen.front = one - 82;
    else if (one >= 40 && one <= 47) pen.back = one - 40;
    else if (one >= 100 && one <= 107) pen.back = one - 92;
  }
}

/** After 38 or 48: `5;N` of 256 colours or `2;R;G;B`. A number below 16, [r, g, b], or "". */
function wideColour(numbers) {
  const form = numbers.shift();
  const byte = (value) => Math.min(255, Math.max(0, value || 0));
  if (form === 2) return numbers.splice(0, 3).map(byte);
  if (form !== 5) return "";
  const code = byte(numbers.shift());
  if (code < 16) return code;
  if (code >= 232) return new Array(3).fill(8 + (code - 232) * 10);
  const level = (step) => (step ? 55 + step * 40 : 0);
  return [Math.floor((code - 16) / 36), Math.floor((code - 16) / 6) % 6, (code - 16) % 6].map(level);
}
