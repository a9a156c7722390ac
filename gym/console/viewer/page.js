// The list, its filters, the head of the page and the keys.
const embedded = $("data");
const source = embedded ? embeddedSource(JSON.parse(embedded.textContent)) : servedSource();
const NOTHING = { agent: null, kind: "", file: "", low: "", high: "", text: "" };
const state = { query: { ...NOTHING, sort: "file" }, rows: [], total: 0, bars: [], at: null, summary: null, asking: 0, filling: false };
const narrow = matchMedia("(max-width: 820px)");

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

function rowButton(row) {
  const many = state.summary.files.filter((one) => one.lines && !one.failures).length > 1;
  const whose = [label(row), row.agent, many ? state.summary.files[row.file].name : ""].filter(Boolean).join(" · ");
  const node = make("button", "row", make("span", "what", row.title || (row.kind === "malformed" ? `${state.summary.files[row.file].name}:${row.line}` : label(row))), chip(row), make("span", "whose", whose));
  node.dataset.id = row.id;
  node.onclick = () => open(row);
  return node;
}

function showHead() {
  const summary = state.summary;
  const names = summary.files.filter((one) => one.lines && !one.failures).map((one) => one.name);
  const title = (names.length ? names : summary.files.map((one) => one.name)).map((name) => name.split("/").pop()).join(", ");
  document.title = `${title}: rollouts`;
  $("name").textContent = title;
  $("name").title = summary.files.map((one) => one.name).join("\n");
  const failures = Object.entries(summary.kinds);
  const failed = failures.reduce((sum, [, count]) => sum + count, 0);
  $("counts").replaceChildren(...[plural(summary.count, "rollout"),
    failed ? make("span", "failed", ` · ${plural(failed, "failure")} (${failures.map(([kind, count]) => `${kind} ${count}`).join(", ")})`) : " · no failures",
    summary.malformed ? make("span", "failed", ` · ${plural(summary.malformed, "malformed line")}`) : ""].filter(Boolean));
  const sampled = summary.sampled ? [`A sample: ${summary.sampled[0]} of ${summary.sampled[1]} lines; the sums are of all.`] : [];
  $("notices").textContent = [...sampled, ...summary.notices].join(" ");
  $("agents").replaceChildren(...summary.agents.slice(0, 40).map(agentCard));
  options("agent", [["", "all agents"], ...summary.agents.map((one) => [`=${one.name}`, one.name || "(no agent)"])], state.query.agent === null ? "" : `=${state.query.agent}`);
  options("kind", [["", "all outcomes"], ["verified", "verified"], ...(failed ? [["failed", "any failure"]] : []), ...failures.map(([kind]) => [kind, `failed: ${kind}`]), ...(summary.malformed ? [["malformed", "malformed lines"]] : [])], state.query.kind);
  options("file", [["", "all files"], ...summary.files.map((one, index) => [String(index), one.name]).filter(([index]) => summary.files[index].lines)], state.query.file);
  $("file").hidden = summary.files.filter((one) => one.lines).length < 2;
  $("agent").hidden = summary.agents.length < 2;
}

function options(id, pairs, value) {
  $(id).replaceChildren(...pairs.map(([key, text]) => { const node = make("option", "", text); node.value = key; return node; }));
  $(id).value = value;
}

function agentCard(one) {
  const mean = one.mean === null ? make("span", "chip", "no reward") : make("span", "chip scored", `mean ${one.mean.toFixed(3)}`);
  if (one.mean !== null) mean.style.setProperty("--t", shade(one.mean));
  const card = make("button", "agent", make("b", "", one.name || "(no agent)"), make("span", "sums", mean, plural(one.count, "rollout"), one.failed ? make("span", "failed", `${one.failed} failed`) : ""));
  card.title = one.name;
  card.setAttribute("aria-pressed", String(state.query.agent === one.name));
  card.onclick = () => { state.query.agent = state.query.agent === one.name ? null : one.name; showHead(); ask(); };
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
    bar.onclick = () => { [$("low").value, $("high").value] = chosen ? ["", ""] : [String(low), String(high)]; readForm(); };
    return bar;
  }));
  const range = state.bars.length ? [state.bars[0][0], state.bars[state.bars.length - 1][1]] : [];
  $("scale").className = each ? "each" : "";
  $("scale").replaceChildren(...(each ? state.bars.map(([low]) => low) : range).map((value) => make("span", "", short(value))));
  $("chart").hidden = !state.bars.length;
}

function readForm() {
  const agent = $("agent").value;
  const number = (id) => ($(id).value.trim() !== "" && Number.isFinite(Number($(id).value)) ? $(id).value.trim() : "");
  state.query = { agent: agent === "" ? null : agent.slice(1), kind: $("kind").value, file: $("file").value, low: number("low"), high: number("high"), text: $("text").value, sort: $("sort").value };
  showHead();
  ask();
}

async function ask() {
  const asking = ++state.asking;
  try {
    const list = await source.list(state.query, 0);
    if (asking !== state.asking) return;
    Object.assign(state, { rows: list.rows, total: list.total, bars: list.bars });
    $("rows").replaceChildren(...list.rows.map(rowButton));
    if (!list.rows.length) $("rows").append(make("p", "empty", "Nothing matches."));
    $("rows").scrollTop = 0;
    showBars();
    showStatus();
    mark();
  } catch (error) {
    if (asking === state.asking) $("status").textContent = error.message;
  }
}

async function fill() {
  if (state.filling || state.rows.length >= state.total) return;
  state.filling = true;
  const asking = state.asking;
  try {
    const list = await source.list(state.query, state.rows.length);
    if (asking !== state.asking) return;
    state.rows.push(...list.rows);
    $("rows").append(...list.rows.map(rowButton));
  } catch (error) {
    $("status").textContent = error.message;
  } finally {
    state.filling = false;
  }
}

function showStatus() {
  const filtered = Object.keys(NOTHING).some((key) => state.query[key] !== NOTHING[key]);
  $("status").textContent = `${plural(state.total, "line")}${filtered ? " match" : ""}${filtered && state.total === 1 ? "es" : ""}`;
  $("reset").hidden = !filtered;
}

function mark() {
  for (const node of $("rows").querySelectorAll(".row")) node.setAttribute("aria-current", String(node.dataset.id === state.at));
}

async function open(row) {
  state.at = row.id;
  history.replaceState(null, "", `#${row.id}`);
  document.body.classList.add("reading");
  mark();
  await showRollout(row, { file: state.summary.files[row.file].name, label, chip, step, open });
}

async function step(by) {
  const index = state.rows.findIndex((row) => row.id === state.at) + by;
  if (index >= state.rows.length) await fill();
  const row = state.rows[Math.max(0, index)];
  if (!row) return;
  $("rows").children[state.rows.indexOf(row)].scrollIntoView({ block: "nearest" });
  await open(row);
}

function foldThoughts() {
  const thoughts = [...document.querySelectorAll("details.thought")];
  const unfold = thoughts.some((one) => !one.open);
  for (const one of thoughts) one.open = unfold;
}

onKeys({
  j: ["next rollout", () => step(1)],
  k: ["previous rollout", () => step(-1)],
  r: ["open or close all reasoning", foldThoughts],
  "/": ["search all text", () => $("text").focus()],
  Escape: ["back to the list", () => { document.activeElement.blur(); document.body.classList.remove("reading"); }],
});
let typing = 0;
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("filters").addEventListener("input", (event) => { clearTimeout(typing); typing = setTimeout(readForm, event.target.tagName === "SELECT" ? 0 : 200); });
$("filters").addEventListener("reset", () => setTimeout(() => { state.query = { ...NOTHING, sort: $("sort").value }; showHead(); ask(); }));
$("rows").addEventListener("scroll", () => { if ($("rows").scrollTop + $("rows").clientHeight * 2 > $("rows").scrollHeight) fill(); });
$("fresh").onclick = async () => { $("fresh").hidden = true; await look(); await ask(); };

async function look() {
  state.summary = await source.summary();
  showHead();
}

/** A file that grows says so; the list stays as it is until asked, so that the reader's place does not move. */
async function pollSummary() {
  if (!document.hidden) {
    try {
      const summary = await source.summary();
      $("fresh").hidden = summary.generation === state.summary.generation;
      $("fresh").textContent = `show ${Math.max(0, summary.count - state.summary.count) || "what is"} new`;
    } catch {
      $("status").textContent = "The server of this page has ended: start gym view again.";
    }
  }
  setTimeout(pollSummary, 3000);
}

async function begin() {
  const wanted = decodeURIComponent(location.hash.slice(1));
  await look();
  await ask();
  const named = /^\d+\/\d+$/.test(wanted) ? await source.row(wanted) : null;
  const first = named || (narrow.matches ? null : state.rows[0]);
  if (first) {
    await open(first);
    $("rows").querySelector("[aria-current=true]")?.scrollIntoView({ block: "center" });
  } else $("reading").replaceChildren(make("p", "empty", state.rows.length ? "" : "No rollouts yet."));
  if (source.live) setTimeout(pollSummary, 3000);
}
begin().catch((error) => { $("counts").textContent = error.message; });
