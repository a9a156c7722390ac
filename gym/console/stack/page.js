// The Stack page: asks the console every two seconds while the page is visible.
const EVERY = 2000;

const tile = (name, value, small = "", classes = "") => make("div", `tile ${classes}`, make("span", "", name), make("b", "", value), small ? make("small", "", small) : null);

function showTiles(view) {
  const out = view.outside;
  const failed = view.servers.reduce((all, one) => all + ((one.figures && one.figures.failed) || 0), 0);
  const waiting = view.held.reduce((all, one) => all + one.waiting, 0);
  const memory = sum(view.servers.flatMap((one) => one.replicas.map((each) => each.memory)));
  const tiles = [
    tile("From outside", out ? rate(out.rate) : "–", out ? "calls of collectors and clients" : "measuring"),
    tile("Agents took, p50 / p95", out && out.p50 !== null ? `${took(out.p50)} / ${took(out.p95)}` : "–", "of a rollout"),
    tile("Errors", short(failed), "in the last minute, all servers", failed ? "bad" : ""),
    tile("Held back", short(waiting), waiting ? "calls wait for a provider" : "no call waits for a provider", waiting ? "warn" : ""),
  ];
  const sandboxes = view.sandboxes;
  if (sandboxes) tiles.push(tile("Sandboxes", short(sandboxes.alive), [`${sandboxes.waiting} queued`, sandboxes.warm ? `warm: ${sandboxes.warm}` : "", sandboxes.breaker === "closed" ? sandboxes.provider : "the engine fails", sandboxes.stale ? "old: the broker is silent" : ""].filter(Boolean).join(" · "), sandboxes.waiting || sandboxes.stale || sandboxes.breaker !== "closed" ? "warn" : ""));
  if (memory !== null) tiles.push(tile("Memory", bytes(memory), "of all servers that report it"));
  $("tiles").replaceChildren(...tiles);
}

/** Nothing was refused lately: then the configuration's limit, or what is left of a former refusal, holds them. */
const heldBack = (one) => `${one.instance}: ${one.waiting ? `${plural(one.waiting, "call")} ${one.waiting === 1 ? "waits" : "wait"}` : "no call waits"}; ${one.refused ? `${one.provider} refused ${one.refused} in the last ${one.seconds} s` : `as many as may be are under way at ${one.provider}`}`;

function showWarnings(view) {
  const held = view.held.map(heldBack);
  $("warnings").replaceChildren(...held.map((text) => make("p", "", text)));
}

function collectionRow(one) {
  const progress = one.progress;
  const settled = progress.done + progress.failed + progress.dropped;
  const bar = make("progress", "");
  if (progress.total !== null) { bar.max = Math.max(progress.total, 1); bar.value = settled; }
  const reward = progress.mean_reward === null ? "" : `reward ${progress.mean_reward.toFixed(3)} · `;
  const kinds = Object.entries(progress.failures).map(([kind, count]) => `${kind} ${count}`).join(", ");
  const row = make("div", "run",
    make("div", "", make("div", "name", one.output || one.id), make("div", "sub", one.pid ? `${one.host}, process ${one.pid}` : "in the console")),
    make("div", "", bar, make("div", "sub", `${settled.toLocaleString("en")}${progress.total === null ? "" : ` of ${progress.total.toLocaleString("en")}`} · ${progress.in_flight} in flight`)),
    make("div", "sub", `${reward}${progress.rate.toFixed(1)}/s${progress.eta_seconds === null ? "" : ` · ${span(progress.eta_seconds)} left`}`));
  if (progress.failed) row.append(make("div", "problem", `${progress.failed} failed: ${kinds}`));
  if (progress.paused_reason) row.append(make("div", "problem", `paused: ${progress.paused_reason}`));
  for (const held of progress.held || []) row.append(make("div", "problem", `held back: ${heldBack(held)}`));
  if (progress.stopping) row.append(make("div", "problem", "stopping"));
  return row;
}

function showCollections(view) {
  const rows = view.collections.map(collectionRow);
  $("collections").replaceChildren(...(rows.length ? [make("h2", "", "Collecting now"), make("div", "card", rows)] : []));
}

function show(view) {
  document.title = `${view.stack}: ${view.healthy} of ${view.total} healthy`;
  $("stack").textContent = view.stack;
  const replicas = view.servers.reduce((all, one) => all + one.replicas.length, 0);
  const allWell = view.total > 0 && view.healthy === view.total;
  $("overall").className = `pill ${allWell ? "healthy" : view.healthy ? "degraded" : view.total ? "down" : "stopped"}`;
  $("overall").textContent = allWell ? "all healthy" : `${view.healthy} of ${view.total} healthy`;
  $("summary").textContent = `${plural(view.total, "server")}, ${plural(replicas, "replica")}, behind ${location.origin} · ${view.window ? `figures of the last ${span(view.window)}` : "the first figures come in a moment"}`;
  showTiles(view);
  showWarnings(view);
  showCollections(view);
  drawCalls(view);
  showServers(view);
  showOwn(view);
}

let answered = 0;
async function refresh() {
  try {
    show(await fetchJson("/view/api/stack/overview"));
    answered = Date.now();
    showTrouble();
  } catch (error) {
    showTrouble(`${error.message} What you see is old. Is the stack still up? gym ps`);
  }
  $("age").textContent = answered ? `as of ${new Date(answered).toLocaleTimeString()}` : "";
  if ($("log-follow").checked) await loadLogNames().then(() => readLog()).catch(() => undefined);
}

async function keepFresh() {
  if (!document.hidden) await refresh();
  setTimeout(keepFresh, EVERY);
}

async function showConfig() {
  try {
    $("config-text").textContent = (await fetchJson("/view/api/stack/config")).text;
  } catch (error) {
    $("config-text").textContent = error.message;
  }
}

onKeys({
  "/": ["search the log", () => $("log-text").focus()],
  l: ["to the logs", () => $("log-lines").scrollIntoView({ block: "center" })],
  c: ["open or close the configuration", () => { $("config").open = !$("config").open; }],
  Escape: ["leave the search", () => document.activeElement.blur()],
});
$("config").addEventListener("toggle", () => { if ($("config").open) showConfig(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
beginLogs().catch((error) => { $("log-status").textContent = error.message; });
keepFresh();
