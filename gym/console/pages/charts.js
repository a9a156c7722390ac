"use strict";
// Small drawings of numbers, as SVG nodes. Colours come from the styles; a title says each number to who points at it.

// On a narrow screen a drawing is as narrow, so that its numbers stay as large as other text.
const narrower = (width) => Math.max(260, Math.min(width, innerWidth - 64));
const CHART = { width: narrower(620), height: 190, left: 44, right: 10, top: 10, bottom: 24 };

function ticksOf(low, high) {
  if (!(high > low)) return [low];
  const step = 10 ** Math.floor(Math.log10((high - low) / 2));
  const size = [1, 2, 5, 10].map((one) => one * step).find((one) => (high - low) / one <= 5);
  const first = Math.ceil(low / size) * size;
  return Array.from({ length: Math.floor((high - first) / size + 1e-9) + 1 }, (_, each) => Number((first + each * size).toPrecision(12)));
}

function frameOf(low, high, label, size = CHART) {
  const y = (value) => size.top + (size.height - size.top - size.bottom) * (1 - (high > low ? (value - low) / (high - low) : 0.5));
  const lines = ticksOf(low, high).map((value) => [draw("line", { x1: size.left, x2: size.width - size.right, y1: y(value), y2: y(value), class: "grid" }), draw("text", { x: size.left - 6, y: y(value) + 4, class: "tick end" }, short(value))]);
  const node = draw("svg", { viewBox: `0 0 ${size.width} ${size.height}`, class: size.width === size.height ? "chart square" : "chart", role: "img", "aria-label": label }, lines);
  return { node, y };
}

/** How far a count is; nothing where it is whole. */
function countingNote(counting) {
  if (!counting) return null;
  const bar = make("progress", "");
  bar.max = counting.of || 1;
  bar.value = counting.counted;
  const said = counting.waits ? "Waiting: another comparison is counted first." : `Counting: ${counting.counted.toLocaleString("en")} of ${plural(counting.of, "rollout")}.`;
  return make("p", "note counting", bar, said);
}

/** A page that is not visible asks for nothing. */
const untilVisible = () => (document.hidden ? new Promise((done) => document.addEventListener("visibilitychange", done, { once: true })) : Promise.resolve());
const ASK_AGAIN = 100;

/** Points {x, mean, low, high, title}: a line within the band of its interval. */
function curveChart(points, label, marks = []) {
  if (!points.length) return make("p", "empty", "Nothing yet.");
  const values = points.flatMap((one) => [one.mean, one.low, one.high]).filter((one) => typeof one === "number");
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const pad = (most - least || Math.abs(most) || 1) * 0.08;
  const { node, y } = frameOf(least - pad, most + pad, label);
  const [first, last] = [points[0].x, points[points.length - 1].x];
  const x = (value) => CHART.left + 6 + (CHART.width - CHART.left - CHART.right - 12) * (last > first ? (value - first) / (last - first) : 0.5);
  const banded = points.filter((one) => typeof one.low === "number");
  if (banded.length > 1) node.append(draw("path", { class: "band", d: `M${[...banded.map((one) => `${x(one.x)} ${y(one.high)}`), ...[...banded].reverse().map((one) => `${x(one.x)} ${y(one.low)}`)].join("L")}Z` }));
  node.append(draw("path", { class: "line", d: `M${points.map((one) => `${x(one.x)} ${y(one.mean)}`).join("L")}` }));
  node.append(...points.map((one) => draw("circle", { cx: x(one.x), cy: y(one.mean), r: points.length > 30 ? 2 : 3.2, class: "dot" }, draw("title", {}, one.title))));
  node.append(...apartMarks(marks, x).map((one) => draw("text", { x: x(one.x), y: CHART.height - 6, class: `tick ${one.x === first ? "start" : one.x === last ? "end" : "middle"}` }, one.text)));
  return node;
}

/** From the last one backwards: those that would stand in another are left out. */
function apartMarks(marks, x) {
  return [...marks].reverse().reduce((kept, one) => (kept.length && x(kept[kept.length - 1].x) - x(one.x) < 30 ? kept : [...kept, one]), []);
}

/** [[low, high, count]]: `link(low, high)` makes each bar an address. */
function barChart(bars, label, link = null, size = { ...CHART, height: 150 }) {
  if (!bars.length) return make("p", "empty", "No numbers.");
  const most = Math.max(...bars.map(([, , count]) => count));
  const { node, y } = frameOf(0, most, label, size);
  const wide = (size.width - size.left - size.right) / bars.length;
  bars.forEach(([low, high, count], each) => {
    const name = low === high ? short(low) : `${short(low)} to ${short(high)}`;
    const bar = draw("rect", { x: size.left + each * wide + wide * 0.08, width: Math.min(wide * 0.84, 80), y: Math.min(y(count), y(0) - (count ? 2 : 0)), height: Math.max(y(0) - y(count), count ? 2 : 0), rx: 2, class: "bar" }, draw("title", {}, `${name}: ${count.toLocaleString("en")}`));
    const shown = bars.length <= 12 || each === 0 || each === bars.length - 1;
    const text = shown ? draw("text", { x: size.left + each * wide + Math.min(wide * 0.84, 80) / 2 + wide * 0.08, y: size.height - 7, class: "tick middle" }, short(low === high || each < bars.length - 1 ? low : high)) : null;
    const place = link && count ? draw("a", { href: link(low, high), "aria-label": `${name}: ${plural(count, "rollout")}` }, bar) : bar;
    node.append(place, ...(text ? [text] : []));
  });
  return node;
}

/** Parts [name, amount, said]: one bar that is as long as the whole. */
function stackedBar(parts) {
  const whole = parts.reduce((sum, [, amount]) => sum + amount, 0) || 1;
  return make("div", "hops", parts.filter(([, amount]) => amount > 0).map(([name, amount, said], each) => {
    const node = make("span", name === "rest" ? "rest" : "", amount / whole > 0.08 ? name : "");
    node.style.flex = `${amount} 1 0`;
    node.style.setProperty("--n", each);
    node.title = `${name} ${said}`;
    return node;
  }));
}

/** Pairs {before, after, title, href} around the diagonal on which nothing changed. */
function scatterChart(pairs, label) {
  const side = narrower(420), size = { width: side, height: side, left: 48, right: 12, top: 12, bottom: 30 };
  const values = pairs.flatMap((one) => [one.before, one.after]);
  let [low, high] = [Math.min(...values, 0), Math.max(...values, 1)];
  const pad = (high - low) * 0.04;
  [low, high] = [low - pad, high + pad];
  const { node, y } = frameOf(low, high, label, size);
  const x = (value) => size.left + (size.width - size.left - size.right) * ((value - low) / (high - low));
  node.append(draw("line", { x1: x(low), y1: y(low), x2: x(high), y2: y(high), class: "diagonal" }));
  node.append(...ticksOf(low, high).map((value) => draw("text", { x: x(value), y: size.height - 10, class: "tick middle" }, short(value))));
  node.append(...pairs.map((one) => draw("a", { href: one.href }, draw("circle", { cx: x(one.before), cy: y(one.after), r: Math.min(3.5 + Math.sqrt(one.times || 1), 14), class: `pair ${one.after > one.before ? "up" : one.after < one.before ? "down" : ""}` }, draw("title", {}, one.title)))));
  return node;
}
