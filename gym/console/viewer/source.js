// Where rollouts come from: the server of this page, or the page itself when it was written as a file.
// Both answer list(query, start), row(id), one(row), asked(row), repeats(row), marks(row), mark(row, change) and summary(); whatever they hold is text from elsewhere.
const COUNT = 100;
const FEW_VALUES = 12, MOST_BARS = 20;

function servedSource() {
  const place = (row) => `/view/api/rollouts/rollout/${row.id}`;
  return {
    live: true,
    summary: () => fetchJson("/view/api/rollouts/summary"),
    list(query, start) {
      const asked = Object.entries(query).filter(([, value]) => value !== "" && value !== null);
      return fetchJson(`/view/api/rollouts/list?${new URLSearchParams([...asked, ["start", start], ["count", COUNT]])}`);
    },
    row: (id) => fetchJson(`/view/api/rollouts/rollout/${id}/row`).catch(() => null),
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
  return {
    live: false,
    summary: async () => data.summary,
    async list(query, start) {
      const wanted = query.text.trim().toLowerCase();
      const found = data.rows.filter((row) =>
        (query.agent === null || (row.agent === query.agent && row.kind !== "malformed")) && isKind(row, query.kind)
        && (query.file === "" || row.file === Number(query.file)) && (!wanted || textOf(row).includes(wanted)));
      const ranged = query.low !== "" || query.high !== "";
      const low = query.low === "" ? -Infinity : Number(query.low), high = query.high === "" ? Infinity : Number(query.high);
      const inRange = ranged ? found.filter((row) => row.reward !== null && row.reward >= low && row.reward <= high) : found;
      const rows = inOrder(inRange, query.sort);
      return { total: rows.length, start, rows: rows.slice(start, start + COUNT), bars: drawBars(found.map((row) => row.reward).filter((one) => one !== null)) };
    },
    row: async (id) => data.rows.find((row) => row.id === id) || null,
    one: async (row) => bodies.get(row.id),
    asked: async (row) => data.asked[row.id] || null,
    repeats: async (row) => (row.task === null ? [row] : data.rows.filter((one) => one.task === row.task && one.file === row.file && one.kind !== "malformed")),
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

function drawBars(rewards) {
  const values = [...new Set(rewards)].sort((a, b) => a - b);
  if (values.length <= FEW_VALUES) return values.map((value) => [value, value, rewards.filter((one) => one === value).length]);
  const low = values[0], width = (values[values.length - 1] - low) / MOST_BARS;
  const counts = new Array(MOST_BARS).fill(0);
  for (const one of rewards) counts[Math.min(Math.floor((one - low) / width), MOST_BARS - 1)] += 1;
  return counts.map((count, index) => [low + index * width, low + (index + 1) * width, count]);
}
