// Where rollouts come from: the server of this page, or the page itself when it was written as a file.
// Both answer list(query, start), row(id), one(row), asked(row), repeats(row), marks(row), mark(row, change) and summary(); whatever they hold is text from elsewhere.
const COUNT = 100, GROUPS = 50;
const FEW_VALUES = 12, MAX_BARS = 20;

function servedSource() {
  const api = "/view/api/rollouts";
  const place = (row) => `${api}/rollout/${encodeURIComponent(row.id)}`;
  const page = (name, count) => (query, start) => fetchJson(`${api}/${name}?${new URLSearchParams([...queryPairs(query), ["start", start], ["count", count]])}`);
  return {
    live: true,
    summary: (runs) => fetchJson(`${api}/summary?${new URLSearchParams(runs.map((one) => ["run", one]))}`),
    list: page("list", COUNT),
    groups: page("groups", GROUPS),
    changes: (generation) => fetchJson(`${api}/changes?generation=${generation}`),
    row: (id) => fetchJson(`${place({ id })}/row`).catch(() => null),
    one: (row) => fetchJson(row.kind === "malformed" ? `${place(row)}/problem` : place(row)),
    asked: (row) => fetchJson(`${place(row)}/asked`),
    raw: (row) => place(row),
    repeats: (row) => fetchJson(`${place(row)}/repeats`),
    marks: (row) => fetchJson(`${place(row)}/notes`),
    mark: (row, change) => fetchJson(`${place(row)}/notes`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(change) }),
  };
}

function embeddedSource(data) {
  const texts = new Map(); // built at the first search
  const bodies = new Map(data.rows.map((row, index) => [row.id, data.bodies[index]]));
  const textOf = (row) => {
    if (!texts.has(row.id)) texts.set(row.id, [...textsIn(bodies.get(row.id))].join("\n").toLowerCase());
    return texts.get(row.id);
  };
  const isKind = (row, kind) => kind === "" || (kind === "verified" ? !row.kind : kind === "failed" ? row.kind && row.kind !== "malformed" : row.kind === kind);
  const within = (value, low, high) => value !== null && value !== undefined && value >= (low === "" ? -Infinity : Number(low)) && value <= (high === "" ? Infinity : Number(high));
  const fits = (row, query) => (!query.run.length || query.run.includes(row.run)) && (query.agent === null || (row.agent === query.agent && row.kind !== "malformed"))
    && isKind(row, query.kind) && (!query.tool || row.tools.includes(query.tool)) && (query.task === "" || row.task === Number(query.task))
    && (!query.component || within(row.components[query.component], query.least, query.most)) && SWITCHES.every((name) => !query[name] || (name === "flagged" ? data.notes?.[row.id]?.flag : row[name]));
  const find = (query) => {
    const wanted = query.text.trim().toLowerCase();
    const found = data.rows.filter((row) => fits(row, query) && (!wanted || textOf(row).includes(wanted)));
    const rows = query.low === "" && query.high === "" ? found : found.filter((row) => within(row.reward, query.low, query.high));
    return { rows, bars: drawBars(found.map((row) => row.reward).filter((one) => one !== null)) };
  };
  return {
    live: false,
    summary: async () => data.summary,
    async list(query, start) {
      const { rows, bars } = find(query);
      return { total: rows.length, start, rows: inOrder(rows, query.sort || "file").slice(start, start + COUNT), bars };
    },
    async groups(query, start) {
      const { rows, bars } = find(query);
      const groups = inGroups(rows, query.sort || "disagree");
      return { total: groups.length, lines: rows.length, start, groups: groups.slice(start, start + GROUPS), bars };
    },
    row: async (id) => data.rows.find((row) => row.id === id) || null,
    one: async (row) => bodies.get(row.id),
    asked: async (row) => data.asked[row.id] || null,
    repeats: async (row) => (row.task === null ? [row] : data.rows.filter((one) => one.task === row.task && one.run === row.run && one.failures === row.failures && one.kind !== "malformed")),
    marks: async (row) => ({ ...(data.notes || {})[row.id], problem: "Notes are kept by `gym view` while it serves the file; this page only shows them." }),
    mark: async () => { throw new Error("This page keeps no notes: open the file with `gym view`."); },
    raw: (row) => URL.createObjectURL(new Blob([JSON.stringify(bodies.get(row.id), null, 2)], { type: "application/json" })),
  };
}

function* textsIn(value) {
  if (typeof value === "string") yield value;
  else if (value && typeof value === "object") for (const one of Object.values(value)) yield* textsIn(one);
}

function inOrder(rows, sort) {
  if (sort === "file") return rows;
  const key = sort === "task" ? (row) => row.task : (row) => (row[sort.replace("-", "")] === null ? null : row[sort.replace("-", "")] * (sort[0] === "-" ? -1 : 1));
  const ranked = rows.map((row, index) => [key(row), row.repeat === null ? -1 : row.repeat, index, row]);
  ranked.sort((a, b) => (a[0] === null) - (b[0] === null) || a[0] - b[0] || (sort === "task" ? a[1] - b[1] : 0) || a[2] - b[2]);
  return ranked.map((one) => one[3]);
}

function inGroups(rows, sort) {
  const groups = new Map();
  for (const row of rows) {
    const key = row.task === null ? row.id : `${row.task}:${row.run}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  const found = [...groups.values()].map(makeGroup);
  const name = sort.replace("-", ""), sign = sort[0] === "-" ? -1 : 1;
  const byTask = (a, b) => (a.task === null) - (b.task === null) || a.task - b.task;
  if (sort === "disagree") found.sort((a, b) => b.spread - a.spread || byTask(a, b));
  else if (sort === "task") found.sort(byTask);
  else if (sort !== "file") {
    const value = (group) => (name === "reward" ? group.mean : meanOf(group.rows.map((row) => row[name])));
    found.sort((a, b) => (value(a) === null) - (value(b) === null) || sign * (value(a) - value(b)));
  }
  return found;
}

function makeGroup(rows) {
  const ordered = [...rows].sort((a, b) => (a.repeat ?? -1) - (b.repeat ?? -1));
  const rewards = rows.map((row) => row.reward).filter((one) => one !== null);
  const title = ordered.find((row) => row.title && !row.failures) || ordered[0];
  return { run: rows[0].run, task: rows[0].task, title: title.title, count: rows.length, mean: meanOf(rewards), spread: rewards.length ? Math.max(...rewards) - Math.min(...rewards) : 0, rows: ordered };
}

const meanOf = (values) => { const known = values.filter((one) => typeof one === "number"); return known.length ? known.reduce((sum, one) => sum + one, 0) / known.length : null; };

function drawBars(rewards) {
  const values = [...new Set(rewards)].sort((a, b) => a - b);
  if (values.length <= FEW_VALUES) return values.map((value) => [value, value, rewards.filter((one) => one === value).length]);
  const low = values[0], width = (values[values.length - 1] - low) / MAX_BARS;
  const counts = new Array(MAX_BARS).fill(0);
  for (const one of rewards) counts[Math.min(Math.floor((one - low) / width), MAX_BARS - 1)] += 1;
  return counts.map((count, index) => [low + index * width, low + (index + 1) * width, count]);
}
