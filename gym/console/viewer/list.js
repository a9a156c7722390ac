"use strict";
// What stands in the list: a rollout, or a task with the rewards of its repeats.
const HEIGHTS = { list: 58, tasks: 88 };

/** 0 is the worst reward, 1 the best: rewards within 0 to 1 as they are, others between their extremes. */
function shade(reward) {
  const [low, high] = state.summary.range || [0, 1];
  if (low >= 0 && high <= 1) return reward;
  return high > low ? (reward - low) / (high - low) : reward > 0 ? 1 : 0;
}

function chip(row) {
  if (row.kind) return make("span", "chip bad", row.kind);
  if (row.reward === null) return make("span", "chip", "no reward");
  const node = make("span", "chip scored", short(row.reward));
  node.style.setProperty("--t", shade(row.reward));
  return node;
}

const label = (row) => (row.task === null ? `line ${row.line}` : `task ${row.task}${row.repeat === null ? "" : ` · repeat ${row.repeat}`}`);
const fileOf = (row) => state.summary.files.find((one) => one.run === row.run && one.failures === row.failures)?.name || row.run;
const manyRuns = () => state.query.run.length !== 1 && state.summary.runs.filter((one) => one.lines || one.failed).length > 1;

function signsOf(row) {
  return [row.truncated ? "truncated" : "", row.breaks ? "tokens break" : "", row.flagged ? "flagged" : ""].filter(Boolean);
}

function rowNode(row) {
  const whose = [label(row), row.agent, manyRuns() ? row.run : "", ...signsOf(row)].filter(Boolean).join(" · ");
  const node = make("button", "row", make("span", "what", row.title || (row.kind === "malformed" ? `${fileOf(row)}:${row.line}` : label(row))), chip(row), make("span", "whose", whose));
  node.dataset.id = row.id;
  node.setAttribute("aria-current", String(row.id === state.at));
  node.onclick = () => open(row);
  return node;
}

function groupNode(group) {
  const name = group.task === null ? `line ${group.rows[0].line}` : `task ${group.task}`;
  const mean = group.mean === null ? "no reward" : `mean ${short(group.mean)}`;
  const facts = [name, plural(group.count, "repeat"), mean, group.spread ? `they differ by ${short(group.spread)}` : "", manyRuns() ? group.run : ""].filter(Boolean).join(" · ");
  const left = group.count - group.rows.length;
  return make("div", "group", make("div", "what", group.title || name), make("div", "whose", facts), make("div", "repeats", group.rows.map(repeatButton), left ? make("span", "whose", `+${left}`) : null));
}

function repeatButton(row) {
  const face = chip(row);
  const node = make("button", "repeat", face);
  node.dataset.id = row.id;
  node.title = [label(row), row.agent, row.kind || (row.reward === null ? "no reward" : `reward ${short(row.reward)}`), ...signsOf(row)].filter(Boolean).join(" · ");
  node.setAttribute("aria-label", node.title);
  node.setAttribute("aria-current", String(row.id === state.at));
  node.onclick = () => open(row);
  return node;
}

function makeWindow() {
  const isList = state.view === "list";
  return new ListWindow($("rows"), {
    height: HEIGHTS[state.view],
    count: isList ? 100 : 50,
    draw: isList ? rowNode : groupNode,
    fetchPage: async (start) => {
      const reply = await (isList ? source.list : source.groups)(asked(), start);
      Object.assign(state, { bars: reply.bars, lines: isList ? reply.total : reply.lines, searched: reply.searched ?? 1, shown: reply.generation });
      return { total: reply.total, items: isList ? reply.rows : reply.groups };
    },
    onTrouble: (error) => showTrouble(error.message),
  });
}

/** The query as it goes to the source, with the order that the view begins with. */
const asked = () => ({ ...state.query, sort: state.query.sort || ORDERS[state.view][0][0] });
const rowsOf = (item) => (item ? item.rows || [item] : []);

/** The rollout before or after the open one, across tasks. */
async function stepFrom(at, by) {
  const here = state.window.find((item) => rowsOf(item).some((row) => row.id === at));
  const rows = here < 0 ? [] : rowsOf(state.window.at(here));
  const next = rows[rows.findIndex((row) => row.id === at) + by];
  if (here >= 0 && next) return { index: here, row: next };
  const index = here < 0 ? 0 : here + by;
  const others = rowsOf(await state.window.get(index));
  return others.length ? { index, row: by > 0 || here < 0 ? others[0] : others[others.length - 1] } : null;
}

/** The first repeat of the task before or after. */
async function taskFrom(at, by) {
  const here = state.window.find((item) => rowsOf(item).some((row) => row.id === at));
  const index = here < 0 ? 0 : here + by;
  const rows = rowsOf(await state.window.get(index));
  return rows.length ? { index, row: rows[0] } : null;
}

function mark() {
  for (const node of $("rows").querySelectorAll("[data-id]")) node.setAttribute("aria-current", String(node.dataset.id === state.at));
}
