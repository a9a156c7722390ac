// How to call a stack, with its own names and address; where there is no stack, the commands alone.
const COMMANDS = [
  ["gym up NAMES", "start a stack; its page is the router's address"],
  ["gym rollouts NAME -o results/run.jsonl", "collect rollouts; killed in mid-run, the same command resumes"],
  ["gym view FILES", "these pages without a stack"],
  ["gym compare A B", "two runs on the same tasks"],
  ["gym play NAME", "be the policy yourself"],
  ["gym ps", "how each server is"],
  ["gym logs NAME --follow", "what it writes"],
  ["gym doctor", "what is missing on this machine"],
];
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function howTo(view) {
  const agent = view.servers.find((one) => one.type === "responses_api_agents");
  const base = location.origin;
  const example = (text, ...lines) => make("div", "how", make("p", "", text), make("pre", "", lines.join("\n")));
  const near = /^(localhost|127\.|\[::1\])/.test(location.hostname);
  const token = near ? [] : ['  -H "authorization: Bearer $GYM_TOKEN" \\'];
  const parts = [];
  if (agent) {
    const row = JSON.stringify({ responses_create_params: { input: [{ role: "user", content: "…" }] } });
    parts.push(example("Collect verified rollouts over a data set:", `gym rollouts rows.jsonl -o rollouts.jsonl --agent ${agent.name} --url ${base}`));
    parts.push(example("One rollout from any language; a row is a line of the data set:",
      `curl ${quoted(base + agent.prefix + "/run")} \\`, ...token, "  -H 'content-type: application/json' \\", `  -d ${quoted(row)}`));
  }
  parts.push(example("Many rollouts from any language: a data set in, one line a rollout out as they finish:",
    `curl -N ${quoted(`${base}/rollouts?concurrency=64`)} \\`, ...token, "  -H 'content-type: application/x-ndjson' --data-binary @rows.jsonl"));
  parts.push(example("A trainer written for NeMo Gym (TRL, NeMo RL, verl) takes this as its head server:",
    `head_server: {host: ${location.hostname}, port: ${location.port || (location.protocol === "https:" ? 443 : 80)}}`));
  return parts;
}

function schemaLine(server) {
  const link = (path, text) => { const node = make("a", "", text); node.href = server.prefix + path; return node; };
  return make("li", "", make("b", "", server.name), link("/docs", "docs"), link("/openapi.json", "schema"), server.type === "resources_servers" ? link("/tools", "tools") : null);
}

async function begin() {
  $("commands").append(...COMMANDS.flatMap(([command, what]) => [make("dt", "", command), make("dd", "", what)]));
  if (![...$("menu").querySelectorAll("a")].some((one) => one.pathname === "/view/stack")) return;
  const view = await fetchJson("/servers");
  $("how").replaceChildren(...howTo(view));
  $("schema-list").replaceChildren(...view.servers.filter((one) => one.ours).map(schemaLine));
  $("calling").hidden = $("schemas").hidden = false;
}
begin().catch((error) => showTrouble(error.message));
