// Who calls whom, drawn node by node: what comes from outside, the agents, and what they ask. A line is as thick as its traffic.
const MAX_NODES = 40, WIDE = 1120, HIGH = 44, GAP = 18;
const BOX = 250, OUTSIDE = 170; // how wide the boxes are
const COLUMNS = [2, 312, 794]; // where they begin; beside the last one is room for lines that turn back
const PORTS = 26; // the part of a box's side where lines end

const layerOf = (server) => (server.type === "responses_api_agents" ? 1 : 2);

function drawCalls(view) {
  const busy = new Set(view.calls.filter((one) => one.calls).flatMap((one) => [one.from, one.to]));
  const ranked = [...view.servers].sort((a, b) => busy.has(b.name) - busy.has(a.name));
  const shown = new Set(ranked.slice(0, MAX_NODES).map((one) => one.name));
  const servers = view.servers.filter((one) => shown.has(one.name));
  const places = placesOf([[{ name: "", type: "outside" }], servers.filter((one) => layerOf(one) === 1), servers.filter((one) => layerOf(one) === 2)]);
  const most = Math.max(1, ...view.calls.map((one) => one.calls));
  const lines = portsOf(view.calls.filter((one) => places.has(one.from) && places.has(one.to) && one.from !== one.to), places);
  const height = Math.max(...[...places.values()].map((one) => one.y)) + HIGH + GAP;
  const picture = draw("svg", { viewBox: `0 0 ${WIDE} ${height}`, role: "img", "aria-label": "Who calls whom" },
    lines.map((one) => callLine(one, most)), servers.map((one) => serverBox(one, places.get(one.name))), outsideBox(places.get("")),
    lines.map(callRate));
  $("drawing").replaceChildren(picture);
  $("drawing-note").textContent = [
    view.servers.length > MAX_NODES ? `The ${MAX_NODES} busiest of ${view.servers.length} servers are drawn.` : "",
    view.window ? "" : "The first figures come with the second look.",
    view.router_problem ? `Of servers that do not count their calls nothing is known: ${view.router_problem}.` : "",
  ].filter(Boolean).join(" ");
  showCallList(view);
}

/** Where each box stands, by name: a column for each layer, around the middle of the tallest. */
function placesOf(layers) {
  const height = Math.max(1, ...layers.map((one) => one.length)) * (HIGH + GAP) + GAP;
  return new Map(layers.flatMap((layer, column) => layer.map((one, row) => {
    const free = height - layer.length * (HIGH + GAP) + GAP;
    return [one.name, { x: COLUMNS[column], y: free / 2 + row * (HIGH + GAP), column, wide: column ? BOX : OUTSIDE }];
  })));
}

/** The lines with the points where they begin and end: those of one side of a box lie in the order of their other ends. */
function portsOf(calls, places) {
  const lines = calls.map((one) => ({ ...one, begin: places.get(one.from), end: places.get(one.to) }));
  for (const one of lines) one.back = one.begin.column === one.end.column;
  for (const place of places.values()) {
    spreadPorts(lines.filter((one) => one.begin === place || (one.back && one.end === place)), place, place.x + place.wide);
    spreadPorts(lines.filter((one) => one.end === place && !one.back), place, place.x);
  }
  return lines;
}

function spreadPorts(lines, place, x) {
  const other = (one) => (one.begin === place ? one.end : one.begin);
  const height = (one) => other(one).y + (one.back ? HIGH / 8 : 0);
  [...lines].sort((a, b) => height(a) - height(b)).forEach((one, each) => {
    const y = place.y + HIGH / 2 + (lines.length > 1 ? PORTS * (each / (lines.length - 1) - 0.5) : 0);
    if (one.begin === place) Object.assign(one, { x1: x, y1: y, beside: lines.length });
    else Object.assign(one, { x2: x, y2: y, crowd: lines.length });
  });
}

const bendOf = ({ x1, x2, y1, y2, back }) => (back ? 24 + Math.min(Math.abs(y2 - y1) / 5, 36) : (x2 - x1) / 2);

function callLine(one, most) {
  const { x1, y1, x2, y2, back } = one, bend = bendOf(one);
  const path = draw("path", { d: `M${x1} ${y1} C${x1 + bend} ${y1} ${back ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`, class: `line${one.calls ? " busy" : ""}` });
  if (one.calls) path.style.strokeWidth = `${1.5 + 4.5 * Math.sqrt(one.calls / most)}px`;
  path.append(draw("title", {}, `${one.from || "outside"} → ${one.to}: ${rate(one.rate)}`));
  return path;
}

/** On the line, near the end where fewer other lines are; on one that turns back in its middle. */
function callRate(one) {
  if (!one.calls) return null;
  const { x1, y1, x2, y2, back } = one;
  const t = one.beside < one.crowd ? 0.26 : 0.74;
  const x = back ? x1 + bendOf(one) * 0.75 : x1 + (x2 - x1) * (1.5 * t * (1 - t) + t ** 3);
  return draw("text", { x, y: y1 + (y2 - y1) * (back ? 0.5 : 3 * t * t - 2 * t ** 3) + 4, "text-anchor": "middle", class: "rate" }, rate(one.rate));
}

function serverBox(server, { x, y }) {
  const kind = { responses_api_agents: "agent", resources_servers: "resources", responses_api_models: "model" }[server.type] || server.type;
  return draw("a", { href: `#server-${encodeURIComponent(server.name)}` },
    draw("title", {}, `${server.name}: ${server.state}`),
    draw("rect", { x, y, width: BOX, height: HIGH, rx: 9, class: "box" }),
    draw("circle", { cx: x + 16, cy: y + 16, r: 4, class: `mark ${server.state}` }),
    draw("text", { x: x + 28, y: y + 20 }, cut(server.name, 29)),
    draw("text", { x: x + 28, y: y + 35, class: "kind" }, cut(`${kind} · ${plural(server.replicas.length, "replica")}`, 34)));
}

function outsideBox({ x, y }) {
  return draw("g", {}, draw("rect", { x, y, width: OUTSIDE, height: HIGH, rx: 9, class: "box" }),
    draw("text", { x: x + 16, y: y + 20 }, "outside"), draw("text", { x: x + 16, y: y + 35, class: "kind" }, "collectors, clients"));
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** The same for narrow screens. */
function showCallList(view) {
  const rows = [...view.calls].sort((a, b) => b.calls - a.calls).slice(0, MAX_NODES);
  $("call-list").replaceChildren(...rows.map((one) => make("li", "", make("span", "", `${one.from || "outside"} → ${one.to}`), make("span", "", rate(one.rate)))));
}
