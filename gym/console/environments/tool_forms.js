"use strict";
// A form for the call of a tool, made of its JSON schema; what a form cannot say is written as JSON.
const MAX_FIELDS = 40, DEEPEST_SCHEMA = 6;

/** The schema of one value, without references and without the null that stands for "left out". */
function plainSchema(schema, root, depth = 0) {
  if (!isObject(schema) || depth > DEEPEST_SCHEMA) return {};
  const parts = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(asText(schema.$ref));
  if (parts && isObject(root[parts[1]])) return plainSchema(root[parts[1]][parts[2]], root, depth + 1);
  const choices = asList(schema.anyOf ?? schema.oneOf).filter((one) => isObject(one) && one.type !== "null");
  if (choices.length === 1) return { ...schema, ...plainSchema(choices[0], root, depth + 1), anyOf: undefined, oneOf: undefined };
  if (Array.isArray(schema.type)) return { ...schema, type: schema.type.filter((one) => one !== "null").length === 1 ? schema.type.find((one) => one !== "null") : "any" };
  return schema;
}

const parametersOf = (tool) => { const found = tool.parameters ?? (isObject(tool.function) ? tool.function.parameters : null) ?? tool.input_schema; return isObject(found) ? found : {}; };

/** {node, read}: `read()` gives the value, undefined where it is left out, or throws what is wrong with it. */
function valueField(name, schema, isNeeded) {
  const kind = asText(schema.type) || "any", choices = asList(schema.enum);
  const node = choices.length || kind === "boolean" ? choiceField(choices.length ? choices : [true, false], isNeeded) : make(kind === "integer" || kind === "number" ? "input" : "textarea", "");
  if (node.tagName === "TEXTAREA") node.rows = kind === "string" ? 1 : 2;
  if (node.tagName === "INPUT") node.inputMode = "decimal";
  if (schema.default !== undefined && schema.default !== null && node.tagName !== "SELECT") node.placeholder = asText(schema.default);
  node.setAttribute("aria-label", name);
  const wrong = (needed) => { throw new Error(`${name}: ${needed}`); };
  const read = () => {
    const text = node.value;
    if (text === "" && !(isNeeded && kind === "string")) return isNeeded ? wrong("a value is needed") : undefined;
    if (node.tagName === "SELECT") return JSON.parse(text);
    if (kind === "string") return text;
    if (kind === "integer") return /^\s*-?\d+\s*$/.test(text) ? Number(text) : wrong("a whole number is needed");
    if (kind === "number") return Number.isFinite(Number(text)) && text.trim() ? Number(text) : wrong("a number is needed");
    try { return JSON.parse(text); } catch { return kind === "any" ? text : wrong(`JSON is needed, ${kind === "array" ? 'such as ["a", 1]' : 'such as {"a": 1}'}`); }
  };
  const about = [kind === "any" ? "" : kind, isNeeded ? "" : "optional"].filter(Boolean).join(", ");
  const label = make("label", "field", make("span", "field-name", make("b", "mono", signs(name.slice(0, 100))), about ? make("small", "", about) : null), node, schema.description ? make("small", "", signs(asText(schema.description).slice(0, 500))) : null);
  return { node: label, read };
}

function choiceField(choices, isNeeded) {
  const option = (value, text) => { const node = make("option", "", text); node.value = value; return node; };
  return make("select", "", isNeeded ? null : option("", "left out"), choices.slice(0, 200).map((one) => option(JSON.stringify(one), asText(one))));
}

/** The form; `send(arguments)` is called with what it says. */
function toolForm(tool, send) {
  const schema = parametersOf(tool), needed = new Set(asList(schema.required));
  const known = Object.entries(isObject(schema.properties) ? schema.properties : {}).slice(0, MAX_FIELDS);
  const fields = known.map(([name, one]) => [name, valueField(name, plainSchema(one, schema), needed.has(name))]);
  const written = make("textarea", "mono"), wrong = make("p", "failed", "");
  written.rows = 3;
  written.value = "{}";
  written.setAttribute("aria-label", "arguments as JSON");
  const inFields = make("div", "fields-of-tool", fields.map(([, one]) => one.node), fields.length ? null : make("p", "soft", "It takes no arguments."));
  const asJson = make("input", "");
  asJson.type = "checkbox";
  const read = () => Object.fromEntries(fields.map(([name, one]) => [name, one.read()]).filter(([, value]) => value !== undefined));
  asJson.onchange = () => {
    if (asJson.checked) try { written.value = JSON.stringify(read(), null, 2); } catch { written.value = "{}"; }
    inFields.hidden = asJson.checked;
    written.hidden = !asJson.checked;
  };
  written.hidden = true;
  const call = make("button", "primary", "Call");
  const form = make("form", "tool-form", inFields, written, wrong, make("p", "acts", call, make("label", "soft", asJson, " as JSON")));
  form.onsubmit = (event) => {
    event.preventDefault();
    try {
      wrong.textContent = "";
      const given = asJson.checked ? JSON.parse(written.value) : read();
      if (!isObject(given)) throw new Error("Arguments are a JSON object.");
      send(given);
    } catch (error) {
      wrong.textContent = error.message;
    }
  };
  return form;
}
