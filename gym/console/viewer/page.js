// The head of the page, what is chosen, and the keys.
const embedded = $("data");
const source = embedded ? embeddedSource(JSON.parse(embedded.textContent)) : servedSource();
const state = { summed: "", wanted: "", query: { ...NOTHING, sort: "" }, view: "tasks", at: null, summary: null, bars: [], lines: 0, searched: 1, shown: 0, window: null, asking: 0 };
const narrow = matchMedia("(max-width: 820px)");

function showHead() {
  const summary = state.summary;
  const chosen = summary.runs.filter((one) => !state.query.run.length || state.query.run.includes(one.name));
  const names = chosen.map((one) => one.name);
  const missing = state.query.run.filter((one) => !names.includes(one));
  const title = !names.length ? state.query.run.join(", ") : names.length === 1 ? chosen[0].path.split("/").pop() : names.length > 3 ? plural(names.length, "run") : names.join(", ");
  document.title = `${title}: rollouts`;
  $("name").textContent = title;
  $("name").title = chosen.map((one) => one.path).join("\n");
  const failures = Object.entries(summary.kinds);
  const failed = failures.reduce((sum, [, count]) => sum + count, 0);
  $("counts").replaceChildren(...[plural(summary.count, "rollout"),
    failed ? make("span", "failed", ` · ${plural(failed, "failure")} (${failures.map(([kind, count]) => `${kind} ${count}`).join(", ")})`) : " · no failures",
    summary.malformed ? make("span", "failed", ` · ${plural(summary.malformed, "malformed line")}`) : "",
    summary.indexed < 1 ? make("span", "progress", ` · indexed: ${Math.floor(summary.indexed * 100)} %`) : ""].filter(Boolean));
  const sampled = summary.sampled ? [`A sample: ${summary.sampled[0]} of ${summary.sampled[1]} lines; the sums are of all.`] : [];
  $("notices").textContent = [...sampled, ...missing.map((one) => `There is no run ${one} here, or not any more.`), ...summary.notices].join(" ");
  $("agents").replaceChildren(...summary.agents.slice(0, 40).map(agentCard));
  showChoices(summary, state);
  showForm(state);
}

function agentCard(one) {
  const mean = one.mean === null ? make("span", "chip", "no reward") : make("span", "chip scored", `mean ${one.mean.toFixed(3)}`);
  if (one.mean !== null) mean.style.setProperty("--t", shade(one.mean));
  const card = make("button", "agent", make("b", "", one.name || "(no agent)"), make("span", "sums", mean, plural(one.count, "rollout"), one.failed ? make("span", "failed", `${one.failed} failed`) : ""));
  card.title = one.name;
  card.setAttribute("aria-pressed", String(state.query.agent === one.name));
  card.onclick = () => { state.query = { ...state.query, agent: state.query.agent === one.name ? null : one.name }; ask(); };
  return card;
}

function showBars() {
  const highest = Math.max(1, ...state.bars.map(([, , count]) => count));
  const each = state.bars.every(([low, high]) => low === high);
  $("bars").replaceChildren(...state.bars.map(([low, high, count]) => {
    const fill = make("i", "");
    fill.style.height = count ? `max(3px, ${(count / highest) * 100}%)` : "0";
    fill.style.setProperty("--t", Math.min(1, Math.max(0, shade((low + high) / 2))));
    const bar = make("button", "bar", fill);
    bar.title = `${low === high ? `reward ${short(low)}` : `reward ${short(low)} to ${short(high)}`}: ${plural(count, "rollout")}`;
    bar.setAttribute("aria-label", bar.title);
    const chosen = state.query.low === String(low) && state.query.high === String(high);
    bar.setAttribute("aria-pressed", String(chosen));
    bar.onclick = () => { [$("low").value, $("high").value] = chosen ? ["", ""] : [String(low), String(high)]; readQuery(); };
    return bar;
  }));
  const range = state.bars.length ? [state.bars[0][0], state.bars[state.bars.length - 1][1]] : [];
  $("scale").className = each ? "each" : "";
  $("scale").replaceChildren(...(each ? state.bars.map(([low]) => low) : range).map((value) => make("span", "", short(value))));
  $("chart").hidden = !state.bars.length;
}

/** The list of what the form says. */
function readQuery() {
  state.query = readForm(state.view);
  return ask();
}

async function ask({ keep = false } = {}) {
  if (!state.summary) return; // pressed before the page has begun
  const asking = ++state.asking;
  if (!keep) {
    await sumUp();
    if (asking !== state.asking) return;
    if (state.window) state.window.close();
    state.window = makeWindow();
    writeAddress({ ...state, at: state.at || state.wanted });
    showHead();
  }
  showTrouble();
  $("fresh").hidden = true;
  const there = await state.window.load({ keep });
  if (!there || asking !== state.asking) return;
  if (!state.window.total) state.window.sheet.replaceChildren(make("p", "empty", nothingFound()));
  showBars();
  showStatus();
  mark();
  if (state.searched < 1) setTimeout(() => { if (asking === state.asking) ask({ keep: true }); }, 60);
}

/** The sums of the head are those of the chosen runs. */
async function sumUp({ force = false } = {}) {
  const runs = state.query.run, wanted = runs.join("\n");
  if (!force && state.summed === wanted) return;
  try {
    const found = await source.summary(runs);
    if (state.query.run === runs) Object.assign(state, { summary: found, summed: wanted });
  } catch (error) {
    showTrouble(error.message);
  }
}

function nothingFound() {
  if (state.searched < 1 || state.summary.indexed < 1) return "Nothing found so far.";
  return isFiltered(state.query) ? "Nothing matches." : "No rollouts yet.";
}

function showStatus() {
  const filtered = isFiltered(state.query);
  $("taken").hidden = !(source.live && state.query.flagged && state.lines);
  $("taken").href = `/view/api/rollouts/export?${new URLSearchParams(state.query.run.map((one) => ["run", one]))}`;
  const tasks = state.view === "tasks" ? `${plural(state.window.total, "task")} · ` : "";
  const searched = state.searched < 1 ? ` · searched: ${Math.floor(state.searched * 100)} %` : "";
  $("status").textContent = `${tasks}${plural(state.lines, "line")}${filtered ? " match" : ""}${filtered && state.lines === 1 ? "es" : ""}${searched}`;
}

async function open(row) {
  state.at = row.id;
  writeAddress(state);
  document.body.classList.add("reading");
  mark();
  await showRollout(row, { file: fileOf(row), label, chip, step, open });
}

async function go(found) {
  if (!found) return;
  state.window.scrollTo(found.index);
  await open(found.row);
}

const step = async (by) => go(await stepFrom(state.at, by));

function show(view) {
  if (view === state.view) return;
  state.view = view;
  state.query = { ...state.query, sort: ORDERS[view].some(([key]) => key === state.query.sort) ? state.query.sort : "" };
  ask();
}

function foldThoughts() {
  const thoughts = [...document.querySelectorAll("details.thought")];
  const unfold = thoughts.some((one) => !one.open);
  for (const one of thoughts) one.open = unfold;
}

onKeys({
  j: ["next rollout", () => step(1)],
  k: ["previous rollout", () => step(-1)],
  n: ["next task", async () => go(await taskFrom(state.at, 1))],
  p: ["previous task", async () => go(await taskFrom(state.at, -1))],
  t: ["by tasks, or as a list", () => show(state.view === "list" ? "tasks" : "list")],
  r: ["open or close all reasoning", foldThoughts],
  "/": ["search all text", () => $("text").focus()],
  Escape: ["back to the list", () => { document.activeElement.blur(); document.body.classList.remove("reading"); }],
});
let typing = 0;
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("filters").addEventListener("input", (event) => { clearTimeout(typing); typing = setTimeout(readQuery, event.target.matches("select, [type=checkbox]") ? 0 : 200); });
$("filters").addEventListener("reset", (event) => { event.preventDefault(); state.query = { ...NOTHING, sort: state.query.sort }; document.activeElement.blur(); ask(); });
for (const view of ["tasks", "list"]) $(`view-${view}`).onclick = () => show(view);
$("fresh").onclick = () => ask({ keep: true });

/** What is new shows by itself where nothing moves: at the end of a list as in the file, or at the top of any.
 * Elsewhere it waits to be asked for, so that the reader's place stays. */
async function follow() {
  let away = false;
  for (;;) {
    await new Promise((done) => setTimeout(done, 2000));
    if (document.hidden) continue;
    try {
      const { generation } = await source.changes(state.summary.generation);
      if (away) showTrouble();
      away = false;
      if (generation === state.summary.generation) continue;
      await sumUp({ force: true });
      showHead();
      await showNew();
    } catch (error) {
      away = true;
      showTrouble(error.message);
    }
  }
}

async function showNew() {
  const still = state.view === "list" && !state.query.sort;
  if (still || state.window.top === 0) await ask({ keep: true });
  else {
    $("fresh").hidden = false;
    $("fresh").textContent = "show what is new";
  }
  if (!state.at) await openFirst();
}

/** The rollout that the address names, or the first one; what is not read yet is looked for again as files are read. */
async function openFirst() {
  const named = state.wanted ? await source.row(state.wanted) : null;
  const first = named || (state.wanted || narrow.matches ? null : rowsOf(await state.window.get(0))[0]);
  if (!first) {
    const unread = state.summary.indexed < 1, said = unread ? "The files are still being read." : state.window.total ? "" : "No rollouts yet.";
    $("reading").replaceChildren(make("p", "empty", state.wanted && !unread ? `No rollout ${state.wanted} is here.` : said));
    return;
  }
  state.wanted = "";
  await open(first);
  const index = named ? state.window.find((item) => rowsOf(item).some((row) => row.id === first.id)) : 0;
  if (index > 0) state.window.center(index);
}

async function begin() {
  const wanted = readAddress();
  Object.assign(state, { summary: await source.summary(wanted.query.run), summed: wanted.query.run.join("\n"), wanted: wanted.at || "" });
  state.view = wanted.view || (state.summary.repeated ? "tasks" : "list");
  state.query = wanted.query;
  if ([...SWITCHES, "tool", "component", "task"].some((name) => state.query[name])) $("more").open = true;
  await ask();
  await openFirst();
  if (source.live) follow();
}
begin().catch((error) => { $("counts").textContent = error.message; });
