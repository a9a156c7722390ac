"use strict";
// Two rollouts of one task side by side: what they share, where they part, what each did from there.

/** What of a step counts when two are compared: ids and times do not. */
function stepSign(step) {
  const item = step.item, out = step.output;
  const pick = [item.type ?? "message", item.role ?? "", textOf(item.content), textOf(item.summary), item.name ?? "", sameJson(item.arguments ?? item.input ?? ""), out ? sameJson(out.output ?? out.content ?? "") : sameJson(item.output ?? "")];
  return pick.map(asText).join("\u0001");
}

const sameJson = (value) => { const found = parsed(value); return typeof found === "string" ? found : JSON.stringify(found); };

/** The index of the first step that differs; the length of the shorter where one only goes on. */
function firstDivergence(one, other) {
  const most = Math.min(one.length, other.length);
  for (let index = 0; index < most; index += 1) if (stepSign(one[index]) !== stepSign(other[index])) return index;
  return most;
}

function besideBlocks(left, right) {
  const [one, other] = [left, right].map((side) => stepsOf(side.output, side.context));
  const at = firstDivergence(one, other);
  const isSame = at === one.length && at === other.length;
  return [
    make("div", "beside-heads", besideHead(left, "A"), besideHead(right, "B")),
    differenceTable(left, right),
    sharedBlock(one.slice(0, at), isSame),
    isSame ? null : partingLine(one[at], other[at], at),
    isSame ? null : make("div", "beside", besideColumn("A", one.slice(at), at), besideColumn("B", other.slice(at), at)),
  ].filter(Boolean);
}

function besideHead(side, name) {
  const open = make("button", "", `read ${name} alone`);
  open.onclick = side.open;
  return make("div", "", make("b", "side-name", name), " ", side.label, " ", side.chip, " ", open);
}

function sharedBlock(steps, isSame) {
  if (!steps.length) return make("p", "soft", "They part at the first step.");
  const head = isSame ? `Both took the same ${plural(steps.length, "step")}` : `The first ${plural(steps.length, "step")} ${steps.length === 1 ? "is" : "are"} the same`;
  return lazyFold(head, "shared", () => stepList(steps).node);
}

function partingLine(one, other, at) {
  const said = !one || !other ? `${one ? "B" : "A"} ends here, ${one ? "A" : "B"} goes on` : `They part at step ${at + 1}`;
  const node = make("div", "parting", make("b", "", said));
  node.id = "parting";
  if (one && other) node.append(...partingTexts(stepSign(one), stepSign(other)));
  return node;
}

/** The first part of both that differs, around its first character that does. */
function partingTexts(one, other) {
  const [left, right] = [one.split("\u0001"), other.split("\u0001")];
  const part = left.findIndex((text, index) => text !== right[index]);
  const [a, b] = [left[part] ?? "", right[part] ?? ""];
  const start = commonEnds(a, b)[0], from = Math.max(0, start - 60);
  const shown = (name, text) => make("div", "excerpt", make("b", "side-name", name), make("span", "text", from ? "…" : "", signs(text.slice(from, start)), make("mark", "", signs(text.slice(start, start + 140) || "(ends)"))));
  return [shown("A", a), shown("B", b)];
}

function besideColumn(name, steps, from) {
  const head = make("div", "who", make("b", "side-name", name), plural(steps.length, "step"), ` from step ${from + 1}`);
  return make("div", "", head, steps.length ? stepList(steps).node : make("p", "soft", "It had ended."));
}

/** Reward, cost and the verifier's short fields, where they differ. */
function differenceTable(left, right) {
  const facts = (side) => {
    const body = side.body, stamp = isObject(body._gym) ? body._gym : {}, response = isObject(body.response) ? body.response : {};
    const own = Object.fromEntries(addedFields(body).filter((name) => typeof body[name] !== "object" || body[name] === null).map((name) => [name, asText(body[name]).slice(0, 200)]));
    return { reward: asText(body.reward), took: typeof stamp.seconds === "number" ? duration(stamp.seconds) : "", tokens: isObject(response.usage) ? asText(response.usage.total_tokens) : "", model: asText(response.model), status: asText(response.status), seed: asText(stamp.seed), ...own };
  };
  const [a, b] = [facts(left), facts(right)];
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((name) => a[name] !== b[name]).slice(0, 40);
  if (!names.length) return null;
  const cell = (text) => make("td", "", signs(text || "–"));
  return make("div", "table prose", make("table", "", make("thead", "", make("tr", "", ["", "A", "B"].map((text) => make("th", "", text)))), make("tbody", "", names.map((name) => make("tr", "", make("th", "", signs(name)), cell(a[name]), cell(b[name]))))));
}
