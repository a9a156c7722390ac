"use strict";
// The form of the filters: from the address into the form, from the form into the query.
const ORDERS = {
  tasks: [["disagree", "those that disagree first"], ["task", "by task"], ["file", "as in the file"], ["reward", "lowest mean reward first"], ["-reward", "highest mean reward first"], ["-seconds", "slowest first"], ["-tokens", "most tokens first"], ["-steps", "most steps first"], ["-began", "latest first"]],
  list: [["file", "as in the file"], ["task", "by task"], ["reward", "lowest reward first"], ["-reward", "highest reward first"], ["-seconds", "slowest first"], ["-tokens", "most tokens first"], ["-steps", "most steps first"], ["-began", "latest first"]],
};

function options(id, pairs, value) {
  const known = pairs.some(([key]) => key === value) ? pairs : [...pairs, [value, value.replace(/^=/, "")]];
  $(id).replaceChildren(...known.map(([key, text]) => { const node = make("option", "", text); node.value = key; return node; }));
  $(id).value = value;
}

/** The choices as the files give them; what is chosen stays, also where no file has it. */
function showChoices(summary, { query, view }) {
  const failures = Object.keys(summary.kinds);
  const runs = summary.runs.map((one) => [one.name, one.name]);
  const several = query.run.length > 1 ? query.run.join("\n") : "";
  options("run", [["", `all ${plural(runs.length, "run")}`], ...(several ? [[several, plural(query.run.length, "run")]] : []), ...runs], query.run.length === 1 ? query.run[0] : several);
  options("agent", [["", "all agents"], ...summary.agents.map((one) => [`=${one.name}`, one.name || "(no agent)"])], query.agent === null ? "" : `=${query.agent}`);
  options("kind", [["", "all outcomes"], ["verified", "verified"], ...(failures.length ? [["failed", "any failure"]] : []), ...failures.map((kind) => [kind, `failed: ${kind}`]), ...(summary.malformed ? [["malformed", "malformed lines"]] : [])], query.kind);
  options("tool", [["", "any tool"], ...summary.tools.map((name) => [name, `used ${name}`])], query.tool);
  options("component", [["", "any component"], ...summary.components.map((name) => [name, name])], query.component);
  options("sort", ORDERS[view], query.sort || ORDERS[view][0][0]);
  $("run").hidden = runs.length < 2 && !query.run.length;
  $("agent").hidden = summary.agents.length < 2 && query.agent === null;
  $("tool").hidden = !summary.tools.length && !query.tool;
  $("measure").hidden = !summary.components.length && !query.component;
  for (const name of ["least", "most"]) $(name).disabled = !query.component;
}

function showForm({ query, view }) {
  for (const name of ["low", "high", "least", "most", "text", "task"]) if ($(name) !== document.activeElement) $(name).value = query[name];
  for (const name of SWITCHES) $(name).checked = query[name];
  for (const name of ["tasks", "list"]) $(`view-${name}`).setAttribute("aria-pressed", String(view === name));
  const hidden = ["component", "task", "tool"].filter((name) => query[name]).length + SWITCHES.filter((name) => query[name]).length;
  $("more-count").textContent = hidden ? ` (${hidden})` : "";
  $("reset").hidden = !isFiltered(query);
}

function readForm(view) {
  const number = (id) => ($(id).value.trim() !== "" && Number.isFinite(Number($(id).value)) ? $(id).value.trim() : "");
  const whole = /^\d{1,9}$/.test($("task").value.trim()) ? $("task").value.trim() : "";
  const chosen = { run: $("run").value ? $("run").value.split("\n") : [], agent: $("agent").value === "" ? null : $("agent").value.slice(1) };
  const texts = { kind: $("kind").value, tool: $("tool").value, component: $("component").value, text: $("text").value, task: whole };
  const range = { low: number("low"), high: number("high"), least: texts.component ? number("least") : "", most: texts.component ? number("most") : "" };
  return { ...NOTHING, ...chosen, ...texts, ...range, ...Object.fromEntries(SWITCHES.map((name) => [name, $(name).checked])), sort: $("sort").value === ORDERS[view][0][0] ? "" : $("sort").value };
}
