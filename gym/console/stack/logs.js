// The ends of the processes' logs, searched by the console.
const logState = { names: [], asking: 0, shown: "" };

async function loadLogNames() {
  const found = await fetchJson("/view/api/stack/logs");
  if (found.names.join("\n") === logState.names.join("\n") && (found.names.length || !$("log-problem").hidden)) return;
  logState.names = found.names;
  const wanted = readState().log;
  $("log-name").replaceChildren(...found.names.map((name) => { const node = make("option", "", name); node.value = name; return node; }));
  $("log-name").value = found.names.includes(wanted) ? wanted : found.names[0] || "";
  const none = !found.names.length;
  $("log-problem").textContent = none ? `${found.problem} Read them with: gym logs NAME --follow` : found.note;
  $("log-problem").hidden = !$("log-problem").textContent;
  $("log-form").hidden = $("log-lines").hidden = none;
}

async function readLog({ typed = false } = {}) {
  const name = $("log-name").value, text = $("log-text").value;
  if (!name) return;
  const asking = ++logState.asking;
  try {
    const found = await fetchJson(`/view/api/stack/logs/${encodeURIComponent(name)}?${new URLSearchParams({ text, lines: 400 })}`);
    if (asking === logState.asking) showLog(found, text, typed);
  } catch (error) {
    if (asking === logState.asking) $("log-status").textContent = error.message;
  }
}

function showLog(found, text, typed) {
  const box = $("log-lines"), key = `${found.name}\n${text}\n${found.bytes}`;
  const part = found.bytes > found.searched ? ` in the last ${Math.round(found.searched / 1024)} KB of ${Math.round(found.bytes / 1024)}` : "";
  $("log-status").textContent = text ? `${plural(found.matches, "line")} match${found.matches === 1 ? "es" : ""}${part}` : `${plural(found.matches, "line")}${part}`;
  if (key === logState.shown) return;
  const atEnd = typed || box.scrollTop + box.clientHeight > box.scrollHeight - 30;
  logState.shown = key;
  box.replaceChildren(...(found.lines.length ? found.lines.map((line) => logLine(line, text)) : [make("span", "empty", text ? "Nothing matches." : "Nothing yet.")]));
  if (atEnd) box.scrollTop = box.scrollHeight;
}

function logLine(line, text) {
  const level = /\b(ERROR|CRITICAL|FATAL|Traceback)\b/.test(line) ? "level-bad" : /\bWARN(ING)?\b/.test(line) ? "level-warn" : "";
  return make("div", level, marked(line, text));
}

function marked(line, text) {
  if (!text) return [line];
  const parts = [], low = line.toLowerCase(), wanted = text.toLowerCase();
  let at = 0;
  for (let found = low.indexOf(wanted); found >= 0; found = low.indexOf(wanted, at)) {
    parts.push(line.slice(at, found), make("mark", "", line.slice(found, found + wanted.length)));
    at = found + wanted.length;
  }
  return [...parts, line.slice(at)];
}

function rememberLog() {
  const { log, find, ...others } = readState();
  writeState({ ...others, log: $("log-name").value === logState.names[0] ? "" : $("log-name").value, find: $("log-text").value });
}

async function beginLogs() {
  $("log-text").value = readState().find || "";
  await loadLogNames();
  await readLog({ typed: true });
  $("log-form").addEventListener("submit", (event) => event.preventDefault());
  $("log-form").addEventListener("input", () => { rememberLog(); readLog({ typed: true }); });
}
