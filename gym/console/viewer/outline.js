"use strict";
// The side panel: the parts of a rollout and its steps, each a press away.
const MAX_OUTLINED = 300;
const OUTLINE_SIGNS = { call: "⚙", thought: "…", user: "›", assistant: "‹", result: "↳", system: "§", developer: "§", other: "·" };

function outlineBlock(blocks) {
  const steps = stepsOf(outputOf(opened.body), contextOf(opened.body));
  const heads = blocks.filter((node) => node.tagName === "H3");
  const go = (text, act, classes = "") => { const node = make("button", classes, text); node.onclick = act; return node; };
  const parts = heads.map((node) => [go(node.textContent.split(":")[0], () => node.scrollIntoView({ block: "start" }), "part-link"), node.id === "part-rollout" ? stepLinks(steps, go) : null]);
  const panel = make("nav", "outline", parts);
  panel.setAttribute("aria-label", "Parts of this rollout");
  return panel;
}

function stepLinks(steps, go) {
  if (steps.length <= MAX_OUTLINED) return make("div", "step-links", steps.map((step, index) => stepLink(step, index, go)));
  const size = Math.ceil(steps.length / 100);
  const starts = Array.from({ length: Math.ceil(steps.length / size) }, (_, index) => index * size);
  return make("div", "step-links", starts.map((start) => go(`steps ${start + 1} to ${Math.min(steps.length, start + size)}`, () => opened.reveal(start))));
}

function stepLink(step, index, go) {
  const exit = step.output ? exitOf(step.output) : null;
  return go([make("i", "", OUTLINE_SIGNS[step.kind] ?? "·"), " ", signs(step.title.replace(/\s+/g, " ").slice(0, 60)), exit ? make("span", "failed", ` exit ${exit}`) : null], () => opened.reveal(index), `to-${step.kind}`);
}
