"use strict";
// Runs: the list of all, or the figures of one. The address says which, and what its tables are sorted by.
const API = "/view/api/runs";
const TASKS_A_PAGE = 50;
const FRESH = { run: "", sort: "-spread", from: "0", pass: "", k: "", agents: "" };
const state = { ...FRESH, ...readState() };
let generation = null;
let drawn = ""; // the run whose figures the page shows

const rolloutsAt = (more) => `/view/rollouts?${new URLSearchParams({ run: state.run, ...more })}`;
const ago = (seconds) => { const gone = Date.now() / 1000 - seconds; return gone < 90 ? `${Math.max(0, Math.round(gone))} s ago` : gone < 5400 ? `${Math.round(gone / 60)} min ago` : gone < 129600 ? `${Math.round(gone / 3600)} h ago` : new Date(seconds * 1000).toLocaleString(); };
const plusMinus = (interval, mean) => (interval ? ` ± ${short((interval[1] - interval[0]) / 2)}` : mean === null ? "" : "");
const rated = (rate) => `${short(Number(rate.toPrecision(3)))}/s`;
const known = (value, show = short) => (value === null || value === undefined ? "–" : show(value));
const link = (href, ...inside) => { const node = make("a", "", ...inside); node.href = href; return node; };

/** Of numbers that have a border and a k; the address keeps what the reader wrote. */
const border = () => ({ ...(state.pass ? { pass: state.pass } : {}), ...(state.k ? { k: state.k } : {}) });
const percentOf = (share) => (share === null || share === undefined ? "–" : `${short(Number((100 * share).toPrecision(3)))}${UNIT}%`);

/** `sort(name)` makes the heads that have a name buttons; `by` is what it is sorted by now. */
function table(heads, rows, sort = null, by = state.sort) {
  const head = heads.map(([name, text, numeric = true]) => {
    const cell = make("th", numeric ? "number" : "");
    cell.scope = "col";
    if (!sort || !name) { cell.append(text); return cell; }
    const down = by === `-${name}`, up = by === name;
    const button = make("button", "", text, down ? " ↓" : up ? " ↑" : "");
    button.onclick = () => sort(down ? name : `-${name}`);
    cell.setAttribute("aria-sort", down ? "descending" : up ? "ascending" : "none");
    cell.append(button);
    return cell;
  });
  const body = rows.map((cells) => make("tr", "", cells.map((cell, each) => make("td", heads[each][2] === false ? (each ? "" : "first") : "number", cell))));
  return make("div", "wide", make("table", "", make("thead", "", make("tr", "", head)), make("tbody", "", body)));
}

const block = (title, ...inside) => make("section", "block", make("h3", "", title), inside);
const fact = (name, value, note = "") => make("div", "fact", make("span", "name", name), make("b", "", value), note ? make("span", "note", note) : null);

function liveNote(view) {
  const live = view.live;
  if (!live) return null;
  const total = live.total || 0;
  const bar = make("progress", "");
  if (total) { bar.max = total; bar.value = live.done + live.failed + (live.resumed || 0); }
  const eta = typeof live.eta_seconds === "number" ? `, ${duration(live.eta_seconds)} left` : "";
  return make("span", "live", bar, ` ${(live.done + (live.resumed || 0)).toLocaleString("en")}${total ? ` of ${total.toLocaleString("en")}` : ""}, ${live.in_flight} in flight, ${rated(live.rate)}${eta}${live.paused_reason ? `; paused: ${live.paused_reason}` : ""}`);
}

async function showList() {
  const { runs } = await fetchJson(`${API}/list`);
  document.title = "Runs";
  $("runs-head").replaceChildren(make("h1", "", plural(runs.length, "run")));
  drawn = "";
  if (!runs.length) { $("runs-body").replaceChildren(make("p", "empty", "No runs yet. Collect one into this folder: gym rollouts NAME -o results/first.jsonl")); return false; }
  const chosen = new Set();
  const compare = link("#", "Compare the chosen");
  compare.className = "button";
  const mark = () => { compare.hidden = chosen.size < 2; compare.href = `/view/compare?${new URLSearchParams([...chosen].map((name) => ["run", name]))}`; };
  mark();
  const rows = runs.map((one) => {
    const box = make("input", "");
    box.type = "checkbox";
    box.setAttribute("aria-label", `choose ${one.name}`);
    box.onchange = () => { if (box.checked) chosen.add(one.name); else chosen.delete(one.name); mark(); };
    return [box, [link(`?${new URLSearchParams({ run: one.name })}`, one.name), liveNote(one)], one.pending ? "…" : make("span", "", known(one.mean), make("small", "", plusMinus(one.interval, one.mean))), one.count.toLocaleString("en"), make("span", one.failed ? "failed" : "", one.failed.toLocaleString("en")), known(one.tasks), one.agents.join(", "), one.live ? "running" : one.state, one.last ? ago(one.last) : "–"];
  });
  $("runs-body").replaceChildren(make("p", "tools", compare), table([["", "", false], ["", "run", false], ["", "mean reward"], ["", "rollouts"], ["", "failures"], ["", "tasks"], ["", "agents", false], ["", "state", false], ["", "last rollout"]], rows));
  return runs.some((one) => one.pending);
}

function headOf(run) {
  const took = run.percentiles || {};
  const facts = [
    fact("mean reward", known(run.mean), run.counting ? "so far" : run.interval ? `95 %: ${short(run.interval[0])} to ${short(run.interval[1])}, by task` : ""),
    fact("rollouts", run.count.toLocaleString("en"), `${run.counting ? "so far; " : ""}${plural(run.tasks, "task")}${run.rate ? ` · ${rated(run.rate)}` : ""}`),
    fact("failures", run.failed.toLocaleString("en"), run.malformed ? plural(run.malformed, "malformed line") : ""),
    fact("took", took.p50 === undefined ? "–" : `${duration(took.p50)}`, took.p95 === undefined ? "" : `p95 ${duration(took.p95)}, p99 ${duration(took.p99)}`),
    run.tokens ? fact("tokens a rollout", short(Math.round(run.tokens.each_in + run.tokens.each_out)), `${short(Math.round(run.tokens.each_in))} in, ${short(Math.round(run.tokens.each_out))} out; ${short(run.tokens.in + run.tokens.out)} in all${run.tokens.out_a_second ? `, ${short(Math.round(run.tokens.out_a_second))} out/s` : ""}`) : null,
    run.truncated || run.breaks ? fact("cut off", run.truncated.toLocaleString("en"), run.breaks ? `tokens break in ${run.breaks}` : "") : null,
  ];
  const links = make("p", "tools", link("/view/runs", "‹ all runs"), link(rolloutsAt({}), "read its rollouts"), link(rolloutsAt({ view: "tasks" }), "by task"));
  const state = run.live ? liveNote(run) : run.state ? make("span", "chip", run.state) : null;
  return [links, make("h1", "", run.run, " ", state), run.indexed < 1 ? make("p", "note", `Still reading the file: ${Math.floor(run.indexed * 100)} % of its bytes.`) : null, countingNote(run.counting), run.troubles.length ? make("p", "failed", run.troubles.join(" ")) : null, make("div", "facts", facts)].filter(Boolean);
}

/** With the day where it is another one. */
function clock(seconds) {
  const then = new Date(seconds * 1000);
  return then.toDateString() === new Date().toDateString() ? then.toLocaleTimeString() : then.toLocaleString([], { dateStyle: "short", timeStyle: "short" });
}

function overTime(run) {
  const inside = run.bars.length && run.bars[0][0] >= 0 && run.bars[run.bars.length - 1][1] <= 1; // then no mean is beyond
  const within = (value) => (inside && typeof value === "number" ? Math.min(1, Math.max(0, value)) : value);
  const points = run.curve.map((one, each) => ({ ...one, low: within(one.low), high: within(one.high), x: each, title: `${short(one.mean)} over ${plural(one.count, "rollout")}${one.at ? `, until ${clock(one.at)}` : ""}` }));
  const time = (one) => (one?.at ? clock(one.at) : "");
  const marks = points.length > 1 ? [{ x: 0, text: time(points[0]) }, { x: points.length - 1, text: time(points[points.length - 1]) }] : [];
  return block("Mean reward over the run", curveChart(points, "Mean reward of each part of the run, with its 95 % interval", marks));
}

function passes(run) {
  const points = run.passes.map(([k, value, tasks]) => ({ x: Math.log2(k), mean: value, title: `pass@${k}: ${short(value)} over ${plural(tasks, "task")}` }));
  const number = (name, value, label, facts) => {
    const node = Object.assign(make("input", ""), { type: "number", value, ...facts });
    node.setAttribute("aria-label", label);
    node.onchange = () => { state[name] = node.value; writeState(state); show(); };
    return node;
  };
  const reward = number("pass", run.pass_at, "reward from which a rollout has passed", { step: "any" });
  const k = number("k", run.k, "k of pass@k in the tables", { min: 1, step: 1 });
  return block("pass@k", make("p", "note", "Passed from a reward of ", reward, "; k in the tables below: ", k), curveChart(points, "pass@k", run.passes.map(([k]) => ({ x: Math.log2(k), text: String(k) }))));
}

function failures(run) {
  if (!run.kinds.length) return null;
  const said = (one) => make("div", "example", link(rolloutsAt({ kind: one.kind, view: "list", at: `${state.run}:f${one.line}` }), one.message || "(no message)"), one.count > 1 ? make("small", "", ` ${one.count.toLocaleString("en")} times`) : null);
  const rows = run.kinds.map((one) => [one.kind, one.count.toLocaleString("en"), one.examples.map((each) => said({ ...each, kind: one.kind })), link(rolloutsAt({ kind: one.kind, view: "list" }), "read all")]);
  return block("Failures", table([["", "kind", false], ["", "count"], ["", "for example", false], ["", "", false]], rows));
}

const AGENT_KEYS = { name: (one) => one.name, mean: (one) => one.mean, passed: (one) => one.pass_rate, pass: (one) => one.pass_at_k, spread: (one) => one.spread, count: (one) => one.count, failed: (one) => one.failed, steps: (one) => one.steps, tokens: (one) => one.tokens, seconds: (one) => one.seconds, truncated: (one) => one.truncated };

/** What is not known comes last, whichever way round. */
function inOrderOf(agents, by) {
  const key = AGENT_KEYS[by.replace("-", "")], sign = by.startsWith("-") ? -1 : 1;
  if (!key) return agents;
  const unknown = (one) => key(one) === null || key(one) === undefined;
  return [...agents].sort((a, b) => unknown(a) - unknown(b) || (unknown(a) ? 0 : sign * (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0)));
}

function agents(run) {
  const passed = (one) => { const node = make("span", "", percentOf(one.pass_rate)); if (one.passed !== undefined) node.title = `${one.passed.toLocaleString("en")} rollouts passed`; return node; };
  const rows = inOrderOf(run.agents, state.agents).map((one) => [link(rolloutsAt({ agent: one.name }), one.name || "(none)"), make("span", "", known(one.mean), make("small", "", plusMinus(one.interval, one.mean))), passed(one), known(one.pass_at_k), known(one.spread), one.count.toLocaleString("en"), one.failed.toLocaleString("en"), known(one.steps), known(one.tokens, (value) => short(Math.round(value))), known(one.seconds, duration), one.truncated.toLocaleString("en")]);
  const sort = (by) => { state.agents = by; writeState(state); show(); };
  return block("Agents", table([["name", "agent", false], ["mean", "mean reward"], ["passed", "passed"], ["pass", `pass@${run.k || "k"}`], ["spread", "spread"], ["count", "rollouts"], ["failed", "failures"], ["steps", "steps"], ["tokens", "tokens"], ["seconds", "took"], ["truncated", "cut off"]], rows, sort, state.agents));
}

function hops(run) {
  if (!run.hops) return null;
  const parts = [...Object.entries(run.hops.hops), ["rest", run.hops.rest]].map(([name, amount]) => [name, amount, duration(amount / 1000)]);
  const queued = run.hops.queued >= 1 ? ` Before that it waited ${duration(run.hops.queued / 1000)} for its turn.` : "";
  return block("Where the time goes", stackedBar(parts), make("p", "note", `A rollout takes ${duration(run.hops.whole / 1000)} on the average: ${parts.map(([name, , said]) => `${name} ${said}`).join(" · ")}.${queued}`));
}

function components(run) {
  return run.components.filter((one) => one.count).map((one) => block(`${one.name} · mean ${known(one.mean)}`, barChart(one.bars, one.name, (low, high) => rolloutsAt({ component: one.name, least: low, most: high }))));
}

async function tasks(run) {
  const query = new URLSearchParams({ run: state.run, sort: state.sort, start: state.from, count: TASKS_A_PAGE, ...border(), k: run.k });
  const found = await fetchJson(`${API}/tasks?${query}`);
  const start = Number(state.from);
  const sort = (by) => { Object.assign(state, { sort: by, from: "0" }); writeState(state); show(); };
  const turn = (to, text) => { const node = make("button", "", text); node.disabled = to < 0 || to >= found.total; node.onclick = () => { state.from = String(to); writeState(state); show(); }; return node; };
  const range = make("span", "range");
  const rows = found.tasks.map((one) => {
    const place = one.task === null ? `/view/rollouts?${new URLSearchParams({ run: state.run, at: one.id })}` : rolloutsAt({ task: one.task, ...(run.agents.length > 1 ? { agent: one.agent } : {}) });
    return [link(place, one.task === null ? "line" : `task ${one.task}`), make("span", "title", one.title), one.tries ? `${one.passed} of ${one.tries}` : "–", known(one.pass_at_k), known(one.mean), one.tries > 1 ? short(one.spread) : "–", known(one.tokens, (value) => short(Math.round(value))), known(one.seconds, duration)];
  });
  range.textContent = ` ${found.total ? start + 1 : 0} to ${start + found.tasks.length} of ${found.total.toLocaleString("en")} `;
  return block("Tasks", table([["task", "task", false], ["", "asked", false], ["passed", "passed"], ["pass", `pass@${run.k}`], ["mean", "mean"], ["spread", "spread"], ["tokens", "tokens"], ["seconds", "took"]], rows, sort), make("p", "tools", turn(start - TASKS_A_PAGE, "‹ before"), range, turn(start + TASKS_A_PAGE, "next ›")));
}

async function provenance() {
  const found = await fetchJson(`${API}/provenance?${new URLSearchParams({ run: state.run })}`);
  if (!isObject(found)) return block("What it was made of", make("p", "note", "No file beside it says so: it was not written by gym rollouts."));
  const stacks = asList(found.stacks).map((one) => make("li", "", `stack ${asText(one.digest)} since ${asText(one.since)}: ${Object.entries(isObject(one.instances) ? one.instances : {}).map(([name, digest]) => `${name} ${asText(digest).slice(0, 12)}`).join(", ")}`));
  const all = make("details", "", make("summary", "", "All of it, as JSON"), make("pre", "", JSON.stringify(found, null, 2)));
  return block("What it was made of", make("p", "", `Begun ${asText(found.created)} by gym ${asText(found.gym)}; ${Object.entries(isObject(found.identity) ? found.identity : {}).filter(([, value]) => value !== null && value !== "" && asText(value) !== "{}").map(([name, value]) => `${name} ${asText(value)}`).join(", ")}`), make("ul", "", stacks), all);
}

async function showRun() {
  const run = await fetchJson(`${API}/run?${new URLSearchParams({ run: state.run, ...border() })}`);
  document.title = `${run.run}: run`;
  generation = run.generation;
  if (run.counting) {
    $("runs-head").replaceChildren(...headOf(run));
    if (drawn !== run.run) $("runs-body").replaceChildren(...[failures(run), run.agents.length ? agents(run) : null].filter(Boolean));
    return true;
  }
  const rewards = block("Rewards", barChart(run.bars, "How the rewards lie", (low, high) => rolloutsAt({ low, high })));
  const open = [...document.querySelectorAll("#runs-body details")].some((one) => one.open);
  const blocks = [make("div", "pair", overTime(run), rewards), make("div", "pair", passes(run), hops(run)), failures(run), agents(run), make("div", "pair", components(run)), await tasks(run), await provenance()];
  $("runs-head").replaceChildren(...headOf(run));
  $("runs-body").replaceChildren(...blocks.filter(Boolean));
  drawn = run.run;
  if (open) for (const one of document.querySelectorAll("#runs-body details")) one.open = true;
  return false;
}

let showing = Promise.resolve(), timer = 0;
function show() {
  showing = showing.then(async () => {
    try {
      const again = state.run ? await showRun() : await showList();
      showTrouble();
      clearTimeout(timer);
      if (again) timer = setTimeout(() => untilVisible().then(show), ASK_AGAIN);
    } catch (error) {
      showTrouble(error.message);
      if (!drawn) $("runs-body").replaceChildren(make("p", "tools", link("/view/runs", "‹ all runs")));
    }
  });
  return showing;
}

/** What is appended to a file is shown as it comes. */
async function follow() {
  for (;;) {
    await untilVisible();
    try {
      const found = await fetchJson(`/view/api/rollouts/changes?wait=15${generation === null ? "" : `&generation=${generation}`}`);
      if (found.generation !== generation) { generation = found.generation; await show(); await new Promise((done) => setTimeout(done, 1000)); }
    } catch (error) {
      showTrouble(error.message);
      await new Promise((done) => setTimeout(done, 3000));
    }
  }
}
addEventListener("popstate", () => { Object.assign(state, FRESH, readState()); show(); });
onKeys({ u: ["all runs", () => { location.href = "/view/runs"; }], o: ["read its rollouts", () => { if (state.run) location.href = rolloutsAt({}); }] });
show().then(follow);
