"use strict";
// The catalogue, or one environment of it. What is shown stands in the address: ?find=…, or ?name=mcqa&part=rows.
const ENVIRONMENTS = "/view/api/environments";
const PARTS = [["readme", "README"], ["rows", "Rows"], ["tools", "Tools"], ["cases", "Verifier cases"], ["figures", "Figures"], ["try", "Try it"]];
const link = (href, ...inside) => { const node = make("a", "", ...inside); node.href = href; return node; };
const addressOf = (state) => `/view/environments?${new URLSearchParams(state)}`;
const tableOf = (heads, rows) => make("div", "wide", make("table", "", make("thead", "", make("tr", "", heads.map((text) => make("th", "", text)))), make("tbody", "", rows.map((cells) => make("tr", "", cells.map((cell) => make("td", "", cell)))))));

async function begin() {
  const { name } = readState();
  if (name === undefined) return showCatalogue(await fetchJson(`${ENVIRONMENTS}/list`));
  const env = await fetchJson(`${ENVIRONMENTS}/one?${new URLSearchParams({ name })}`);
  document.title = `${env.name}: environment`;
  await findTry(readState().try);
  showOne(env);
}

function showCatalogue({ environments, stack, missing }) {
  const asked = readState();
  const find = make("input", "");
  find.type = "search";
  find.id = "find";
  find.placeholder = "Search   /";
  find.value = asked.find || "";
  find.setAttribute("aria-label", "Search environments");
  const domain = chooser("domain", "any domain", environments.map((one) => one.domain), asked.domain);
  const kind = chooser("kind", "any kind", environments.map((one) => one.kind), asked.kind);
  const rows = make("div", "catalogue"), count = make("p", "soft", "");
  const show = () => {
    const state = { find: find.value.trim(), domain: domain.value, kind: kind.value };
    writeState(state);
    const words = state.find.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (one) => [one.name, ...one.aliases, one.domain, one.kind, one.description, one.licence, ...one.instances].join(" ").toLowerCase();
    const found = environments.filter((one) => (!state.domain || one.domain === state.domain) && (!state.kind || one.kind === state.kind) && words.every((word) => text(one).includes(word)));
    found.sort((one, other) => Boolean(other.instances.length) - Boolean(one.instances.length));
    count.textContent = `${plural(found.length, "environment")}${found.length < environments.length ? ` of ${environments.length}` : ""}${stack ? "; those that run come first" : ""}`;
    rows.replaceChildren(...(found.length ? found.map(catalogueRow) : [make("p", "empty", environments.length ? "No environment is all of that." : "There are no environments here: go to a checkout, or name folders in GYM_PATH.")]));
  };
  find.oninput = domain.onchange = kind.onchange = show;
  onKeys({ "/": ["search", () => find.focus()] });
  $("env").replaceChildren(make("h1", "", "Environments"), make("p", "acts", find, domain, kind), count, missing && stack ? make("p", "missing", missing) : "", rows);
  show();
}

function chooser(name, any, values, value) {
  const option = (one, text) => { const node = make("option", "", text); node.value = one; return node; };
  const node = make("select", "", option("", any), [...new Set(values)].filter(Boolean).sort().map((one) => option(one, one)));
  node.value = value ?? "";
  if (node.selectedIndex < 0) node.value = "";
  node.setAttribute("aria-label", name);
  return node;
}

function catalogueRow(one) {
  const chips = [one.instances.length ? make("span", "chip runs", "runs") : null, ...[one.domain, one.kind, one.licence].filter(Boolean).map((text) => make("span", "chip", signs(text.slice(0, 60))))];
  return make("article", "row", make("h2", "", link(addressOf({ name: one.name }), signs(one.name.slice(0, 200)))), make("p", "chips", chips), make("p", "about", signs(one.description.slice(0, 600))));
}

function showOne(env) {
  const chips = [...[env.domain, env.kind, env.licence].filter(Boolean).map((text) => make("span", "chip", signs(text.slice(0, 60)))), env.instances.length ? make("span", "chip runs", `runs as ${env.instances.join(", ").slice(0, 200)}`) : null, env.strict ? make("span", "chip", "has a strict mode") : null];
  const also = env.aliases.length ? make("p", "soft", `also known as ${env.aliases.join(", ")}`) : null;
  const counts = { rows: env.rows.total, tools: env.tools.length, cases: env.cases.total };
  const tabs = PARTS.map(([part, title]) => {
    const node = button(counts[part] === undefined ? title : `${title} ${counts[part].toLocaleString("en")}`, "tab", () => { writeState({ name: env.name, part, try: part === "try" ? trying.view?.id : "" }, { push: true }); showPart(env); });
    node.dataset.part = part;
    return node;
  });
  onKeys(Object.fromEntries(PARTS.map(([, title], index) => [String(index + 1), [title, () => tabs[index].click()]])));
  const bar = make("div", "tabs", tabs);
  bar.setAttribute("role", "group");
  const part = make("div", "part");
  part.id = "part";
  $("env").replaceChildren(make("div", "", make("p", "back", link("/view/environments", "← all environments")), make("h1", "", signs(env.name.slice(0, 200))), make("p", "chips", chips), make("p", "about", signs(env.description.slice(0, 2000))), also, env.missing ? make("p", "missing", signs(env.missing)) : null, bar, part));
  addEventListener("popstate", () => showPart(env));
  showPart(env);
}

function showPart(env) {
  const part = PARTS.some(([one]) => one === readState().part) ? readState().part : "readme";
  for (const node of document.querySelectorAll(".tab")) node.setAttribute("aria-pressed", String(node.dataset.part === part));
  if (part === "try") {
    writeState({ name: env.name, part, try: trying.view?.id });
    showTry(env);
  } else {
    const show = { readme: readmePart, rows: rowsPart, tools: toolsPart, cases: casesPart, figures: figuresPart }[part];
    $("part").replaceChildren(...[show(env)].flat());
  }
}

function showTry(env) {
  $("part").replaceChildren(tryBlock(env));
  $("part").querySelector(".verdict, .your-turn, .problem")?.scrollIntoView({ block: "nearest" });
}

const nothing = (text) => make("p", "empty", text);
const readmePart = (env) => (env.readme ? make("div", "prose readme", markdownNodes(env.readme)) : nothing("There is no README to show."));

function rowsPart(env) {
  if (!env.rows.total) return nothing("There are no example rows to show.");
  const more = env.rows.total > env.rows.shown.length ? make("p", "soft", `The first ${env.rows.shown.length} of ${env.rows.total.toLocaleString("en")}.`) : null;
  return [more, ...env.rows.shown.map((one, each) => make("div", "said", lazyFold(`row ${each}: ${one.title || "…"}${one.shortened ? " (shortened)" : ""}`, "", () => rowBlock(env, one, each))))].filter(Boolean);
}

function rowBlock(env, one, each) {
  const params = isObject(one.row.responses_create_params) ? one.row.responses_create_params : {};
  const asked = typeof params.input === "string" ? [{ role: "user", content: params.input }] : asList(params.input);
  const rest = Object.entries(one.row).filter(([key]) => key !== "responses_create_params");
  const take = env.instances.length ? button("Try this row", "", () => { trying.view = null; trying.row = each; writeState({ name: env.name, part: "try" }, { push: true }); showPart(env); }) : null;
  return make("div", "", conversationBlock(asked, { depth: 0 }), rest.length ? make("div", "row-fields", make("h3", "", "What the verifier gets beside it"), fieldList(rest, "text")) : null, make("p", "acts", take), lazyFold("as JSON", "aside", () => jsonBlock(one.row)));
}

function toolsPart(env) {
  if (!env.tools.length) return nothing(env.stack || env.rows.total ? "A model is offered no tools here." : "What tools it has is known once it runs.");
  const one = (tool) => make("div", "said", make("p", "tool-name", make("b", "mono", signs(toolName(tool)))), tool.description ? make("div", "prose", markdownNodes(asText(tool.description))) : null, lazyFold("schema of its arguments", "aside", () => jsonBlock(parametersOf(tool))));
  return [make("p", "soft", `As given by ${env.tools_from}.`), ...env.tools.filter(isObject).slice(0, 200).map(one)];
}

function casesPart(env) {
  if (!env.cases.total) return nothing("There are no verifier cases to show.");
  const expects = (one) => (one.error ? `error ${asText(one.error.status)} ${asText(one.error.kind)}` : asText(one.reward));
  const answer = (one) => [one.calls ? make("span", "soft", `${plural(one.calls, "call")} `) : null, one.said.map((call) => make("span", "case-call mono soft", signs(call))), make("span", "mono", signs(one.answer.slice(0, 300))), one.answer.length > 300 ? "…" : null];
  return [make("p", "soft", `Answers, and the reward that each must get: gym test ${env.name} checks them.${env.cases.total > env.cases.shown.length ? ` The first ${env.cases.shown.length}.` : ""}`), tableOf(["reward", "case", "answer"], env.cases.shown.map((one) => [make("b", "", signs(expects(one).slice(0, 80))), make("span", "", signs(one.name.slice(0, 300)), make("small", "case-kind soft", signs(one.kind.slice(0, 40).replaceAll("_", " ")))), make("span", "", answer(one))]))];
}

function figuresPart(env) {
  const block = (title, pairs, note) => make("section", "figures", make("h3", "", title), note ? make("p", "soft small", note) : null, tableOf(["", ""], pairs.map(([name, value]) => [signs(name.slice(0, 100)), make("b", "", signs(asText(value).slice(0, 200)))])));
  const audits = env.audits.map((one) => block("Audit", Object.entries(one), Object.values(one).some((value) => value.includes(" / ")) ? "default mode / strict mode" : ""));
  const metrics = env.metrics.map((one) => block(`Example rollouts${one.agent ? ` of ${one.agent}` : ""}`.slice(0, 200), Object.entries(one.figures).map(([name, value]) => [name, short(value)]), `data/${one.file}`));
  return audits.length + metrics.length ? make("div", "pairs", audits, metrics) : nothing(`There are no figures to show. gym audit ${env.name} measures it.`);
}

begin().catch((error) => { $("env").replaceChildren(make("p", "back", link("/view/environments", "← all environments"))); showTrouble(error.message); });
