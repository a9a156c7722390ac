"use strict";
// Helpers that every page uses. Every text becomes a text node: nothing from a server or a file is ever read as markup.
const $ = (id) => document.getElementById(id);

const make = (tag, classes, ...children) => {
  const node = document.createElement(tag);
  if (classes) node.className = classes;
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
};

/** A node of a drawing: `draw("path", { d: "M0 0", class: "link" })`. */
const draw = (tag, facts = {}, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(facts)) if (value !== null && value !== undefined) node.setAttribute(name, value);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
};

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const asList = (value) => (Array.isArray(value) ? value : []);
const asText = (value) => (typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value));
const UNIT = "\u00a0"; // between a number and its unit: no line ends there
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const short = (number) => (typeof number !== "number" ? asText(number) : Number.isInteger(number) ? number.toLocaleString("en") : Math.abs(number) >= 1e-3 && Math.abs(number) < 1e6 ? String(Number(number.toFixed(3))) : number.toExponential(2));
const duration = (seconds) => {
  const whole = Math.round(seconds);
  if (whole >= 60) return `${Math.floor(whole / 60)}m${String(whole % 60).padStart(2, "0")}s`;
  return seconds >= 1 ? `${seconds.toFixed(1)}${UNIT}s` : `${short(seconds * 1000).replace(/\.\d+$/, (rest) => (seconds < 0.01 ? rest.slice(0, 3) : ""))}${UNIT}ms`;
};

/** The reply as JSON; what went wrong as an Error with a sentence for the page. */
async function fetchJson(path, options = {}) {
  let reply;
  try {
    reply = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server of this page does not answer: has it ended?");
  }
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Error(asText(isObject(body.error) ? body.error.message : body.error) || `the server answered ${reply.status}`);
  return body;
}

/** A sentence above the page, until it is called without one. */
function showTrouble(message = "") {
  $("problem").textContent = message;
  $("problem").hidden = !message;
}

/** The state of a page stands in its address: `readState()`, and `writeState({ task: 3, text: "" })` drops what is empty. */
const readState = () => Object.fromEntries(new URLSearchParams(location.search));
function writeState(state, { push = false } = {}) {
  const pairs = Object.entries(state).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  const query = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  const address = `${location.pathname}${query ? `?${query}` : ""}${location.hash}`;
  history[push ? "pushState" : "replaceState"](null, "", address);
}

// Keys. `onKeys({ j: ["next", () => step(1)] })`; `?` shows them all.
const pageKeys = new Map();
function onKeys(keys) {
  for (const [key, [what, act]] of Object.entries(keys)) pageKeys.set(key, { what, act });
}

function showKeys() {
  const dialog = make("dialog", "keys", make("h2", "", "Keys"), make("dl", "", [...pageKeys, ["?", { what: "this list" }]].map(([key, { what }]) => [make("dt", "", make("kbd", "", key)), make("dd", "", what)])), make("form", "", make("button", "", "Close")));
  dialog.querySelector("form").method = "dialog";
  dialog.onclose = () => dialog.remove();
  dialog.onclick = (event) => { if (event.target === dialog) dialog.close(); };
  dialog.querySelector("button").onclick = (event) => { event.preventDefault(); dialog.close(); };
  document.body.append(dialog);
  dialog.showModal();
}

addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName || "");
  if (event.ctrlKey || event.metaKey || event.altKey || (typing && event.key !== "Escape") || document.querySelector("dialog[open]")) return;
  const act = event.key === "?" ? showKeys : pageKeys.get(event.key)?.act;
  if (!act) return;
  event.preventDefault();
  act(event);
});

// On a narrow screen the menu scrolls: the page that is shown is in sight.
document.querySelector('#menu [aria-current="page"]')?.scrollIntoView({ inline: "center", block: "nearest" });
