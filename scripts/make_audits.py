"""A folder of what `gym audit NAME --json` said, with the load it began at, as the page docs/audits.md."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

PREFACE = """# Audits

What `gym audit NAME` measures of every environment, written by `scripts/audits`. Right answers score full; empty,
random, copied, injected, hostile, oversized and odd ones score nothing, or no more than a declared floor; bad rows
get a reward or a 422 that names the field; texts with lone surrogates get a reward, bytes that are not UTF-8 that or a
422; the same body scores the same again, right or wrong, and among a hundred at once (a dozen where a verify starts
containers). Where that does not hold, the last column says so.

A constant answer is one that looks at no question: nothing, `A`, `yes`, `0`, `I don't know`, and what is right most
often, plain or in the usual forms. The column says what the best of them earns a row over the example rows. It may
earn as much as it is right, and what a server declares; the list below says why, where it is not 0.

{cores} cores, beside other work: the load is that when an audit began. Time is that of one verify, request to reply,
nothing else of this audit in flight. Memory is the slope over up to 10,000 verifies (two minutes at most; with
`--quick` 500, where it says little); a few thousand bytes either way are the allocator's.

| Environment | worthless answers | constant answer | p50 | p99 | memory a verify | load | |
|---|---|---|---|---|---|---|---|
"""
SURFACE = """
## Default and strict

Default is what the public original does, to compare with published numbers; strict is to train against. Each cell says
what was found in default mode / in strict mode, and an environment without a strict mode has one figure. The first six
are what an answer earns that should earn nothing (at most chance, or what is declared): the mean of the best constant
answer, the highest reward of an empty answer, a refusal and a copy of the prompt, the mean of all options at once and
of a right answer with a wrong one behind it. *False fails* are harmless changes of a right answer that were paid less:
bold, code marks, a trailing dot, polite words, thinking aloud, CRLF, full-width letters, number formats, another order
of keys, rewritten code. *Near misses* that were paid: a wrong value, n+1, guesses, denial, retraction, both options, a
broken field, a hollow program. `-`: not measured, since no right answer has a place for its gold. What an environment
stands by is declared in its class with the reason, and not counted.

| | constant | empty | refusal | all options | right then wrong | copied prompt | false fails | near misses |
|---|---|---|---|---|---|---|---|---|
"""
EARNED = ("constant answers", "empty", "refusal", "all options", "right then wrong", "copied prompt")
COUNTED = ("harmless changes", "near misses")


def main(folder: Path) -> int:
    audits = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json")) if path.stat().st_size}
    sys.stdout.write(PREFACE.format(cores=os.cpu_count()))
    for name, findings in audits.items():
        load = float((folder / f"{name}.load").read_text())
        sys.stdout.write(_line(name, _in_mode(findings, "default"), load, _failed(findings)))
    sys.stdout.write(SURFACE)
    for name, findings in audits.items():
        sys.stdout.write(_surface_line(name, findings))
    sys.stdout.write("\n## What constant answers earn\n\n")
    for name, findings in audits.items():
        constant = next(one for one in findings if one["check"] == "constant answers")
        if constant["figures"]["best"]:
            sys.stdout.write(f"* {name}: {constant['detail']}\n")
    return 0


def _in_mode(findings: list[dict[str, Any]], mode: str) -> dict[str, Any]:
    return {one["check"]: one for one in findings if one["mode"] == mode}


def _surface_line(name: str, findings: list[dict[str, Any]]) -> str:
    modes = [found for found in (_in_mode(findings, "default"), _in_mode(findings, "strict")) if found]
    earned = [" / ".join(_figure(found.get(check), "paid") for found in modes) for check in EARNED]
    counted = [" / ".join(_figure(found.get(check), "wrong") for found in modes) for check in COUNTED]
    return f"| {name} | {' | '.join([*earned, *counted])} |\n"


def _figure(found: dict[str, Any] | None, name: str) -> str:
    figures = found["figures"] if found else {}
    if name not in figures:
        return "-"
    return f"{figures[name]:.2g}" if name == "paid" else f"{figures[name]:g} of {figures['tried']:g}"


def _failed(findings: list[dict[str, Any]]) -> str:
    marks = {"default": "", "strict": " (strict)"}
    return ", ".join(f"{one['check']}{marks[one['mode']]}" for one in findings if not one["passed"])


def _line(name: str, found: dict[str, Any], load: float, failed: str) -> str:
    time, memory = found["time"]["figures"], found["memory"]["figures"]
    answers = sum(one["figures"].get("answers", 0) for one in found.values())
    cells = (
        f"[{name}](../servers/resources/{name}/README.md)",
        f"{answers}",
        f"{found['constant answers']['figures']['best']:.2g}",
        f"{time['p50_ms']:.1f} ms",
        f"{time['p99_ms']:.1f} ms",
        f"{memory['bytes_per_verify']:+.0f} B",
        f"{load:.0f}",
        f"failed: {failed}" if failed else "",
    )
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
