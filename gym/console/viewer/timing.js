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

/** Item -> what its call took, of `_gym.steps`: [["model", 294.2, 40, 176], ["tools", 57.1]]. A turn of the model has the
 * call that made it, each result the call of its tool; where there are not as many of either, nothing is said. */
function timesOfItems(items, given) {
  const steps = asList(given).filter((one) => Array.isArray(one) && typeof one[1] === "number");
  const cut = steps.length && steps[steps.length - 1][0] === "omitted";
  const calls = groupsOf(cut ? steps.slice(0, -1) : steps, (one) => one[0] === "model");
  const turns = groupsOf(items, (item, index) => madeByModel(item) && (!index || !madeByModel(items[index - 1])));
  const times = new Map();
  if (!calls.length || (cut ? calls.length > turns.length : calls.length !== turns.length)) return times;
  calls.forEach(([asked, ...tools], index) => {
    const said = turns[index].filter(madeByModel), results = turns[index].filter(isResult);
    times.set(said.find((item) => item.type !== "reasoning") ?? said[0], asked);
    if (results.length === tools.length) results.forEach((item, each) => times.set(item, tools[each]));
  });
  return times;
}

/** Each begins with one that `begins`; what comes before the first is left out. */
function groupsOf(list, begins) {
  const groups = [];
  list.forEach((one, index) => { if (begins(one, index)) groups.push([one]); else groups.at(-1)?.push(one); });
  return groups;
}

/** `_gym.started` and `queued`: when, and how long it waited. */
function stampFacts(stamp) {
  return {
    took: typeof stamp.seconds === "number" ? duration(stamp.seconds) : "",
    queued: typeof stamp.queued === "number" && stamp.queued >= 0.01 ? duration(stamp.queued) : "",
    began: typeof stamp.started === "number" && Math.abs(stamp.started) < 8e12 ? new Date(stamp.started * 1000).toLocaleString() : "",
  };
}
