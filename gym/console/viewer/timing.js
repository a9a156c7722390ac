"use strict";
// Where the time of a rollout went: its hops as parts of the whole, what no hop accounts for too.

function hopsBlock(stamp) {
  const hops = isObject(stamp) && isObject(stamp.hops) ? Object.entries(stamp.hops).filter(([, one]) => typeof one === "number" && one > 0) : [];
  const whole = isObject(stamp) && typeof stamp.seconds === "number" ? stamp.seconds * 1000 : 0;
  if (!hops.length) return [];
  const known = hops.reduce((sum, [, one]) => sum + one, 0);
  const rest = whole - known;
  const parts = rest > whole * 0.001 ? [...hops, ["the rest", rest]] : hops;
  const total = Math.max(whole, known);
  const bars = parts.map(([name, one], index) => {
    const bar = make("span", name === "the rest" ? "rest" : "", one / total > 0.08 ? name : "");
    bar.style.setProperty("flex", `${one} 1 0`);
    bar.style.setProperty("--n", index);
    bar.title = `${name} ${duration(one / 1000)} (${Math.round((one / total) * 100)} %)`;
    return bar;
  });
  const sums = parts.map(([name, one], index) => {
    const dot = make("i", name === "the rest" ? "dot rest" : "dot");
    dot.style.setProperty("--n", index);
    return make("span", "", dot, ` ${name} ${duration(one / 1000)}`);
  });
  const said = rest < -1 ? make("span", "", ` together, in ${duration(whole / 1000)}: some ran side by side`) : whole ? make("span", "", ` of ${duration(whole / 1000)}`) : null;
  return [sectionHead("Where the time went", "time"), make("div", "hops", bars), make("p", "legend", sums, said)];
}

/** `_gym.started` and `queued`: when, and how long it waited. */
function stampFacts(stamp) {
  return {
    took: typeof stamp.seconds === "number" ? duration(stamp.seconds) : "",
    queued: typeof stamp.queued === "number" && stamp.queued >= 0.01 ? duration(stamp.queued) : "",
    began: typeof stamp.started === "number" && Math.abs(stamp.started) < 8e12 ? new Date(stamp.started * 1000).toLocaleString() : "",
  };
}
