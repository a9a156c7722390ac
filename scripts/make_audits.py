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
get a reward or a 422 that names the field; the same answer scores the same again, and among a hundred at once (a
dozen where a verify starts containers). Where that does not hold, the last column says so.

{cores} cores, one audit at a time, beside other work: the load is that when an audit began. Time is that of one
verify, request to reply, nothing else in flight. Memory is the slope over up to 10,000 verifies (two minutes at
most); a few hundred bytes either way are the allocator's.

| Environment | worthless answers | p50 | p99 | memory a verify | load | |
|---|---|---|---|---|---|---|
"""


def main(folder: Path) -> int:
    told = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json")) if path.stat().st_size}
    sys.stdout.write(PREFACE.format(cores=os.cpu_count()))
    for name, findings in told.items():
        load = float((folder / f"{name}.load").read_text())
        sys.stdout.write(_line(name, {one["check"]: one for one in findings}, load))
    return 0


def _line(name: str, found: dict[str, Any], load: float) -> str:
    time, memory = found["time"]["figures"], found["memory"]["figures"]
    failed = [check for check, one in found.items() if not one["passed"]]
    answers = sum(one["figures"].get("answers", 0) for one in found.values())
    cells = (
        f"[{name}](../servers/resources/{name}/README.md)",
        f"{answers}",
        f"{time['p50_ms']:.1f} ms",
        f"{time['p99_ms']:.1f} ms",
        f"{memory['bytes_per_verify']:+.0f} B",
        f"{load:.0f}",
        f"failed: {', '.join(failed)}" if failed else "",
    )
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
