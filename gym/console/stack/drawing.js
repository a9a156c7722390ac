// Who calls whom, drawn node by node: what comes from outside, the agents, and what they ask. A line is as thick as its traffic.
const MOST_NODES = 40, WIDE = 1120, BOX = 248, HIGH = 44, GAP = 18;

const layerOf = (server) => (server.type === "responses_api_agents" ? 1 : 2);

function drawCalls(view) {
  const busy = new Set(view.calls.filter((one) => one.calls).flatMap((one) => [one.from, one.to]));
  const ranked = [...view.servers].sort((a, b) => busy.has(b.name) - busy.has(a.name));
  const shown = new Set(ranked.slice(0, MOST_NODES).map((one) => one.name));
  const servers = view.servers.filter((one) => shown.has(one.name));
  const layers = [[{ name: "", type: "outside" }], servers.filter((one) => layerOf(one) === 1), servers.filter((one) => layerOf(one) === 2)];
  const tallest = Math.max(1, ...layers.map((one) => one.length));
  const height = tallest * (HIGH + GAP) + GAP;
  const places = new Map();
  layers.forEach((layer, column) => layer.forEach((one, row) => {
    const free = height - layer.length * (HIGH + GAP) + GAP;
    places.set(one.name, { x: 2 + column * ((WIDE - BOX - 4) / 2), y: free / 2 + row * (HIGH + GAP) });
  }));
  const most = Math.max(1, ...view.calls.map((one) => one.calls));
  const lines = view.calls.filter((one) => places.has(one.from) && places.has(one.to) && one.from !== one.to);
  const picture = draw("svg", { viewBox: `0 0 ${WIDE} ${height}`, role: "img", "aria-label": "Who calls whom" },
    lines.map((one) => callLine(one, places, most)), lines.map((one) => callRate(one, places)),
    servers.map((one) => serverBox(one, places.get(one.name))), outsideBox(places.get("")));
  $("drawing").replaceChildren(picture);
  $("drawing-note").textContent = [
    view.servers.length > MOST_NODES ? `The ${MOST_NODES} busiest of ${view.servers.length} servers are drawn.` : "",
    view.window ? "" : "The first figures come with the second look.",
    view.router_problem ? `Of servers that do not count their calls nothing is known: ${view.router_problem}.` : "",
  ].filter(Boolean).join(" ");
  showCallList(view);
}

const ends = (one, places) => {
  const from = places.get(one.from), to = places.get(one.to);
  const same = from.x === to.x;
  return { x1: from.x + BOX, y1: from.y + HIGH / 2, x2: same ? to.x + BOX : to.x, y2: to.y + HIGH / 2, same };
};

function callLine(one, places, most) {
  const { x1, y1, x2, y2, same } = ends(one, places);
  const bend = same ? 60 : (x2 - x1) / 2;
  const path = draw("path", { d: `M${x1} ${y1} C${x1 + bend} ${y1} ${same ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`, class: `line${one.calls ? " busy" : ""}` });
  if (one.calls) path.style.strokeWidth = `${1.5 + 5 * Math.sqrt(one.calls / most)}px`;
  path.append(draw("title", {}, `${one.from || "outside"} → ${one.to}: ${rate(one.rate)}`));
  return path;
}

/** On the line and nearer to who is asked: lines of one caller begin at one point, long ones pass behind the agents. */
function callRate(one, places) {
  if (!one.calls) return null;
  const { x1, y1, x2, y2, same } = ends(one, places);
  const t = x2 - x1 > WIDE / 2 ? 0.88 : 0.75;
  const x = same ? x1 + 34 : x1 + (x2 - x1) * (1.5 * t * (1 - t) + t ** 3), y = y1 + (y2 - y1) * (same ? 0.5 : 3 * t * t - 2 * t ** 3);
  return draw("text", { x, y: y + 4, "text-anchor": "middle", class: "rate" }, rate(one.rate));
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
  return draw("g", {}, draw("rect", { x, y, width: BOX, height: HIGH, rx: 9, class: "box" }),
    draw("text", { x: x + 16, y: y + 20 }, "outside"), draw("text", { x: x + 16, y: y + 35, class: "kind" }, "collectors, trainers, clients"));
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** The same for narrow screens. */
function showCallList(view) {
  const rows = [...view.calls].sort((a, b) => b.calls - a.calls).slice(0, MOST_NODES);
  $("call-list").replaceChildren(...rows.map((one) => make("li", "", make("span", "", `${one.from || "outside"} → ${one.to}`), make("span", "", rate(one.rate)))));
}
