"use strict";
// Compare: the first run of the address, and what the others changed.
const API = "/view/api/compare";
const asked = new URLSearchParams(location.search);
const state = { runs: asked.getAll("run"), by: asked.get("by") || "", flip: asked.get("flip") || "" };

const link = (href, ...inside) => { const node = make("a", "", ...inside); node.href = href; return node; };
const block = (title, ...inside) => make("section", "block", make("h3", "", title), inside);
const fact = (name, value, note = "") => make("div", "fact", make("span", "name", name), make("b", "", value), note ? make("span", "note", note) : null);
const signed = (value) => `${value > 0 ? "+" : ""}${short(value)}`;
const within = (interval) => (interval ? `${signed(interval[0])} to ${signed(interval[1])}` : "one pair has none");
const chance = (value) => (value < 0.001 ? "p < 0.001" : `p = ${value.toFixed(3)}`);

function table(heads, rows) {
  const head = heads.map(([text, numeric = true]) => { const cell = make("th", numeric ? "number" : "", text); cell.scope = "col"; return cell; });
  return make("div", "wide", make("table", "", make("thead", "", make("tr", "", head)), make("tbody", "", rows.map((cells) => make("tr", "", cells.map((cell, each) => make("td", heads[each][1] === false ? "" : "number", cell)))))));
}

/** The verdict in words: what changed, and whether chance explains it. */
function verdict(pair) {
  if (!pair.difference) return "The mean reward is the same.";
  const way = pair.difference > 0 ? "better" : "worse";
  return pair.p_value < 0.05 ? `${pair.after} is ${way} by ${short(Math.abs(pair.difference))}; chance hardly explains it.` : `${pair.after} looks ${way} by ${short(Math.abs(pair.difference))}; chance explains it.`;
}

function chooser(names) {
  const select = (value, change) => {
    const node = make("select", "", make("option", "", "choose a run"), names.map((name) => { const one = make("option", "", name); one.value = name; return one; }));
    node.firstChild.value = "";
    node.value = names.includes(value) ? value : "";
    node.onchange = () => change(node.value);
    return node;
  };
  const put = (each) => (name) => { state.runs[each] = name; state.runs = state.runs.filter((one, at) => one && state.runs.indexOf(one) === at); go(); };
  const boxes = Array.from({ length: Math.min(Math.max(2, state.runs.length + 1), 8) }, (_, each) => { const node = select(state.runs[each] || "", put(each)); node.setAttribute("aria-label", each ? `run ${each + 1}` : "the run before"); return node; });
  const by = make("select", "", [["", "pair by row, else by place"], ["row", "pair by the row's text"], ["index", "pair by place in the data"]].map(([value, text]) => { const one = make("option", "", text); one.value = value; return one; }));
  by.value = state.by;
  by.setAttribute("aria-label", "how tasks are paired");
  by.onchange = () => { state.by = by.value; go(); };
  const flip = make("input", "");
  flip.type = "number"; flip.step = "any"; flip.value = state.flip || "0.5";
  flip.setAttribute("aria-label", "reward at which a rollout has flipped");
  flip.onchange = () => { state.flip = flip.value; go(); };
  return make("p", "tools", boxes, by, make("label", "note", "flipped at ", flip));
}

function go() {
  const query = new URLSearchParams([...state.runs.map((name) => ["run", name]), ...(state.by ? [["by", state.by]] : []), ...(state.flip ? [["flip", state.flip]] : [])]);
  history.pushState(null, "", `/view/compare?${query}`);
  show();
}

const beside = (flip) => `/view/rollouts?${new URLSearchParams({ at: flip.id_before, beside: flip.id_after })}`;

function flips(pair) {
  const rows = pair.flips.map((one) => [link(beside(one), `task ${one.task}${one.repeat ? ` · repeat ${one.repeat}` : ""}`), make("span", "title", one.title), short(one.before), make("b", one.after > one.before ? "up" : "failed", short(one.after))]);
  const shown = pair.flips.length < pair.better + pair.worse ? ` The first ${pair.flips.length} are shown.` : "";
  return block("Rollouts that flipped", make("p", "note", `${pair.better.toLocaleString("en")} rose over ${short(pair.flip_at)}, ${pair.worse.toLocaleString("en")} fell below it.${shown}`), rows.length ? table([["task", false], ["asked", false], ["before"], ["after"]], rows) : null);
}

function measures(pair) {
  const rows = pair.measures.map((one) => [one.name, short(one.before), short(one.after), make("b", "", signed(one.difference)), within(one.interval), chance(one.p_value), one.tasks.toLocaleString("en")]);
  return rows.length ? block("Other numbers", table([["", false], ["before"], ["after"], ["difference"], ["95 %"], ["chance"], ["tasks"]], rows)) : null;
}

function scatter(pair, before) {
  const merged = new Map();
  for (const [task, one, other, title] of pair.points) {
    const key = `${one}|${other}`;
    const found = merged.get(key);
    if (found) { found.times += 1; found.title = `${found.times} tasks: ${short(one)} before, ${short(other)} after`; } else merged.set(key, { before: one, after: other, times: 1, href: `/view/rollouts?${new URLSearchParams([["run", before], ["run", pair.after], ["task", task]])}`, title: `task ${task}: ${short(one)} before, ${short(other)} after. ${title}` });
  }
  return block("Each task: before (across) and after (up)", scatterChart([...merged.values()], "Mean reward of each task before and after"), make("p", "note", "Above the line it became better, below it worse; a larger dot stands for several tasks."));
}

function pairBlocks(pair, before) {
  if (pair.error) return [make("h2", "", pair.after), make("p", "failed", pair.error)];
  const paired = `${plural(pair.tasks, "task")} paired by ${pair.by === "row" ? "the row's text" : "place"}`;
  const alone = [pair.only_before ? `${pair.only_before} only before` : "", pair.only_after ? `${pair.only_after} only after` : ""].filter(Boolean).join(", ");
  const facts = make("div", "facts", fact("difference", signed(pair.difference), `95 %: ${within(pair.interval)}`), fact(before, short(pair.mean_before), "mean before"), fact(pair.after, short(pair.mean_after), "mean after"), fact("chance", chance(pair.p_value), "if each pair's sign were a coin's"), fact("paired", pair.tasks.toLocaleString("en"), [paired, alone].filter(Boolean).join("; ")));
  return [make("h2", "verdict", verdict(pair)), facts, make("div", "pair", scatter(pair, before), measures(pair)), flips(pair)].filter(Boolean);
}

/** The pairs that are whole, and how far the others are, until all are; `isOver`: something else is to be shown. */
async function showPairs(query, isOver) {
  const note = make("div", ""), pairs = make("div", "");
  let shown = -1;
  for (;;) {
    const found = await fetchJson(`${API}/runs?${query}`);
    if (isOver()) return;
    if (shown < 0) $("compare-body").replaceChildren(note, pairs);
    note.replaceChildren(...[countingNote(found.counting)].filter(Boolean));
    if (found.pairs.length > shown) pairs.replaceChildren(...found.pairs.flatMap((pair) => pairBlocks(pair, found.before)));
    shown = Math.max(shown, found.pairs.length);
    if (!found.counting) return;
    await new Promise((done) => setTimeout(done, ASK_AGAIN));
    await untilVisible();
  }
}

let asking = 0;
async function show() {
  const mine = ++asking;
  try {
    const { runs } = await fetchJson(`${API}/names`);
    if (mine !== asking) return;
    const chosen = state.runs.filter(Boolean);
    $("compare-head").replaceChildren(make("h1", "", "Compare runs"), chooser(runs));
    if (chosen.length < 2) {
      $("compare-body").replaceChildren(make("p", "empty", runs.length < 2 ? `${runs.length ? "There is one run here" : "There are no runs here yet"}, and two are compared: collect more, or give gym view two files.` : "Choose two runs of the same tasks: the one before, and the one after."));
      return;
    }
    const query = new URLSearchParams([...chosen.map((name) => ["run", name]), ["by", state.by], ["flip", state.flip]]);
    document.title = `${chosen.join(" and ")}: compared`;
    await showPairs(query, () => mine !== asking);
    if (mine === asking) showTrouble();
  } catch (error) {
    if (mine === asking) showTrouble(error.message);
  }
}
addEventListener("popstate", () => { const now = new URLSearchParams(location.search); Object.assign(state, { runs: now.getAll("run"), by: now.get("by") || "", flip: now.get("flip") || "" }); show(); });
show();
