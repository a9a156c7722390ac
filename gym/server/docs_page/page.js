"use strict";
// What this server takes and gives, from its own openapi.json; every text becomes a text node.
const MAX_DEEP = 4;
const $ = (id) => document.getElementById(id);
const make = (tag, classes, ...children) => {
  const node = document.createElement(tag);
  if (classes) node.className = classes;
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
};
let schemas = {};

const named = (schema) => (schema && schema.$ref ? schemas[schema.$ref.split("/").pop()] || {} : schema || {});

function typeOf(given) {
  const schema = named(given);
  if (given && given.$ref) return given.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(", ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  return schema.type === "array" ? `list of ${typeOf(schema.items) || "anything"}` : schema.type || "anything";
}

function fields(given, deep = 0) {
  const schema = named(given), needed = new Set(schema.required || []);
  return Object.entries(schema.properties || {}).flatMap(([name, one]) => [
    make("tr", "", make("td", "", `${"\u2003".repeat(deep)}${name}${needed.has(name) ? "" : "?"}`), make("td", "", typeOf(one)), make("td", "", one.description || (one.default === undefined ? "" : `default ${JSON.stringify(one.default)}`))),
    ...(deep + 1 < MAX_DEEP && named(one).properties ? fields(one, deep + 1) : []),
  ]);
}

function example(given, deep = 0) {
  const schema = named(given);
  if (schema.default !== undefined) return schema.default;
  if (schema.anyOf) return example(schema.anyOf[0], deep);
  if (schema.enum) return schema.enum[0];
  if (schema.type === "object" || schema.properties) {
    const needed = deep > MAX_DEEP ? [] : schema.required || Object.keys(schema.properties || {}).slice(0, 3);
    return Object.fromEntries(needed.map((name) => [name, example((schema.properties || {})[name], deep + 1)]));
  }
  return { string: "", integer: 0, number: 0, boolean: false, array: [] }[schema.type] ?? null;
}

const bodyOf = (part) => part && part.content && part.content["application/json"] ? part.content["application/json"].schema : null;

function part(title, schema) {
  const rows = schema ? fields(schema) : [];
  return rows.length ? [make("h2", "", title), make("table", "", make("tbody", "", rows))] : [];
}

function tryIt(method, path, schema) {
  const body = method === "get" ? null : make("textarea", "");
  const status = make("p", "status"), reply = make("pre", "");
  const send = make("button", "", "Send");
  reply.hidden = true;
  if (body) { body.value = JSON.stringify(schema ? example(schema) : {}, null, 2); body.setAttribute("aria-label", "Body"); body.spellcheck = false; }
  send.onclick = async () => {
    const began = performance.now();
    try {
      const found = await fetch(path.replace(/^\//, ""), { method: method.toUpperCase(), ...(body ? { body: body.value, headers: { "content-type": "application/json" } } : {}) });
      const text = await found.text();
      status.textContent = `${found.status} in ${Math.round(performance.now() - began)} ms`;
      status.className = `status${found.ok ? "" : " bad"}`;
      try { reply.textContent = JSON.stringify(JSON.parse(text), null, 2); } catch { reply.textContent = text; }
      reply.hidden = false;
    } catch (error) {
      status.textContent = `no answer: ${error.message}`;
      status.className = "status bad";
    }
  };
  return [make("h2", "", "Try it"), body, send, status, reply];
}

function route(path, method, operation) {
  const asked = bodyOf(operation.requestBody), given = bodyOf((operation.responses || {})["200"]);
  const block = make("details", "", make("summary", "", make("span", `method ${method}`, method.toUpperCase()), make("b", "", path), make("span", "", operation.summary === path ? "" : operation.summary || "")));
  block.addEventListener("toggle", () => {
    if (block.open && block.children.length === 1) block.append(...part("Body", asked), ...part("Reply", given), ...(path.includes("{") ? [] : tryIt(method, path, asked).filter(Boolean)));
  });
  return block;
}

async function begin() {
  const reply = await fetch("openapi.json", { cache: "no-store" });
  if (!reply.ok) throw new Error(`openapi.json answered ${reply.status}`);
  const document_ = await reply.json();
  schemas = (document_.components || {}).schemas || {};
  document.title = `${document_.info.title}: docs`;
  $("title").textContent = document_.info.title;
  $("about").textContent = [document_.info.description, `gym ${document_.info.version}`].filter(Boolean).join("\n");
  $("routes").append(...Object.entries(document_.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => route(path, method, operation))));
}
begin().catch((error) => { $("about").textContent = error.message; });
