// Servers and their replicas, as cards. What a server says of itself becomes text nodes only.
const KINDS = [["responses_api_agents", "Agents"], ["resources_servers", "Resources servers"], ["responses_api_models", "Models"]];

const link = (href, text) => { const node = make("a", "", text); node.href = href; return node; };
const ago = (seconds) => (seconds < 1 ? "just now" : `${span(seconds)} ago`);
const span = (value) => value < 90 ? `${Math.round(value)}${UNIT}s` : value < 5400 ? `${Math.round(value / 60)}${UNIT}min` : value < 172800 ? `${(value / 3600).toFixed(1)}${UNIT}h` : `${Math.round(value / 86400)}${UNIT}days`;
const bytes = (value) => (value >= 1 << 30 ? `${(value / (1 << 30)).toFixed(1)}${UNIT}GB` : `${Math.round(value / (1 << 20))}${UNIT}MB`);
const rate = (value) => (value === null || value === undefined ? "–" : value === 0 ? "0/s" : value < 0.1 ? `${(value * 60).toFixed(1)}/min` : `${value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en")}/s`);
const took = (value) => (value === null || value === undefined ? "–" : duration(Number(value.toPrecision(2))));
const cores = (value) => (value === null || value === undefined ? "–" : `${Math.round(value * 100)}${UNIT}%`);
const sum = (list) => (list.every((one) => typeof one !== "number") ? null : list.reduce((all, one) => all + (one || 0), 0));

function serverCard(server) {
  const needs = server.needs.length ? ` · uses ${server.needs.join(", ")}` : "";
  const links = make("div", "links", make("code", "", server.prefix));
  if (server.ours) {
    links.append(link(`${server.prefix}/docs`, "docs"), link(`${server.prefix}/openapi.json`, "schema"));
    if (server.type === "resources_servers") links.append(link(`${server.prefix}/tools`, "tools"));
  }
  const digest = server.digest ? make("span", "sub", `digest ${server.digest.slice(0, 12)}`) : "";
  const node = make("div", "server",
    make("div", "", make("div", "name", server.name), make("div", "sub", server.implementation + needs), links, digest),
    figuresOf(server), make("span", `pill ${server.state}`, server.state),
    make("div", "replicas", server.replicas.map(replicaCard)));
  node.id = `server-${server.name}`;
  return node;
}

function figuresOf(server) {
  const of = server.figures || {};
  const memory = sum(server.replicas.map((one) => one.memory)), processor = sum(server.replicas.map((one) => one.processor));
  const list = make("dl", "figures", [
    ["calls", rate(of.rate)], ["p50", took(of.p50)], ["p95", took(of.p95)],
    ["errors", of.failed === undefined ? "–" : short(of.failed), of.failed ? "failed" : ""],
    ["in flight", typeof of.in_flight === "number" ? short(of.in_flight) : "–"],
    ["memory", memory === null ? "–" : bytes(memory)], ["CPU", cores(processor)],
  ].map(([name, value, classes]) => make("div", "", make("dt", "", name), make("dd", classes || "", value))));
  list.title = server.figures ? `${server.figures.of}, over the last minute` : "This server does not count its calls, and none came through the router.";
  return list;
}

function replicaCard(replica) {
  const state = replica.state === "healthy" ? `${replica.milliseconds < 10 ? replica.milliseconds.toFixed(1) : Math.round(replica.milliseconds)} ms` : replica.state;
  const up = replica.started ? `up ${span(Math.max(0, Date.now() / 1000 - replica.started))}` : "";
  const facts = [replica.version && `gym ${replica.version}`, up, typeof replica.memory === "number" && bytes(replica.memory), typeof replica.processor === "number" && `CPU${UNIT}${cores(replica.processor)}`, !replica.routed && "not routed"].filter(Boolean);
  const when = replica.at ? `, ${ago(Date.now() / 1000 - replica.at)}` : "";
  const card = make("div", "replica",
    make("div", "first", make("b", "", replica.id), " ", make("i", replica.state, state)),
    facts.length ? make("div", "sub", facts.join(" · ")) : null,
    replica.detail ? make("div", "failing", replica.detail) : null,
    replica.restarts ? make("div", "why", `restarted ${replica.restarts === 1 ? "once" : `${replica.restarts} times`}${replica.why ? `: ${replica.why}` : ""}${when}`) : null);
  const said = Object.entries(replica.health).filter(([, value]) => typeof value !== "object").map(([key, value]) => `${key}: ${value}`);
  card.title = [replica.url, ...said].join("\n");
  return card;
}

function showServers(view) {
  $("servers").replaceChildren(...KINDS.flatMap(([type, title]) => {
    const cards = view.servers.filter((one) => one.type === type).map(serverCard);
    return cards.length ? [make("h2", "", title), make("div", "card", cards)] : [];
  }));
}

function showOwn(view) {
  const rows = view.own.map((one) => make("div", "part", make("span", "name", one.name),
    make("span", "sub", [typeof one.memory === "number" && bytes(one.memory), typeof one.processor === "number" && `CPU ${cores(one.processor)}`, one.restarts ? `restarted ${one.restarts}×: ${one.why}` : ""].filter(Boolean).join(" · "))));
  $("own").replaceChildren(...(rows.length ? [make("h2", "", "The stack's own"), make("div", "card", rows)] : []));
}
