"use strict";
// The state of the page in its address: behind `?` where it is served, behind `#` in a file, which has no other.
const SWITCHES = ["flagged", "truncated", "breaks"];
const TEXTS = ["kind", "low", "high", "component", "least", "most", "tool", "text", "task"];
const NOTHING = { run: [], agent: null, ...Object.fromEntries(TEXTS.map((name) => [name, ""])), ...Object.fromEntries(SWITCHES.map((name) => [name, false])) };

/** {query, view, at}: whatever else an address has is let go. */
function readAddress() {
  const asked = new URLSearchParams(location.protocol === "file:" ? location.hash.slice(1) : location.search);
  const query = { ...NOTHING, run: asked.getAll("run").filter(Boolean), agent: asked.get("agent"), sort: asked.get("sort") || "" };
  for (const name of TEXTS) query[name] = asked.get(name) || "";
  for (const name of SWITCHES) query[name] = asked.get(name) === "1";
  return { query, view: asked.get("view") === "list" ? "list" : asked.get("view") === "tasks" ? "tasks" : "", at: asked.get("at") };
}

/** Pairs of a query as a server reads them. */
function queryPairs(query) {
  return Object.entries(query).flatMap(([name, value]) => (Array.isArray(value) ? value.map((one) => [name, one]) : value === true ? [[name, "1"]] : value === "" && name !== "agent" ? [] : value === null || value === false ? [] : [[name, value]]));
}

function writeAddress({ query, view, at }) {
  const text = new URLSearchParams([...queryPairs(query), ["view", view], ...(at ? [["at", at]] : [])]).toString();
  history.replaceState(null, "", location.protocol === "file:" ? `#${text}` : `${location.pathname}?${text}`);
}

const isFiltered = (query) => Object.keys(NOTHING).some((name) => String(query[name]) !== String(NOTHING[name]));
