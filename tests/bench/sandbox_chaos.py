"""Kills a stack's broker, server and collector while sandboxes work, many times; then all of it at once.

    PYTHONPATH=. .venv/bin/python tests/bench/sandbox_chaos.py [--kills 60] [--rows 600] [--seed 5]

Every reward is known before. Exit code 1 when one is lost, doubled or another, or when a thing is left after a minute.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.support.sandbox_chaos import GONE_SECONDS, Chaos, chaos


def run(stack: Chaos, kills: int) -> bool:
    began = time.monotonic()
    seen = stack.fire(kills)
    killed = ", ".join(f"{name} {count}" for name, count in sorted(seen.kills.items()))
    print(f"killed: {killed}; {seen.starts} collectors in {time.monotonic() - began:.0f} s")
    print(f"{seen.rewarded} rewarded, {seen.lost} lost, {seen.doubled} doubled, {seen.wrong} with another reward")
    busy = stack.start_load()
    held = len(stack.labelled())
    busy.kill()
    stack.kill_all()
    took = stack.seconds_until_clear()
    busy.wait()
    print(f"all of it killed at once with {held} sandboxes: nothing left after {took:.1f} s (at most {GONE_SECONDS:g})")
    return seen.honest and took < GONE_SECONDS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chaos(Path(folder), options.rows, options.seed) as stack:
        return 0 if run(stack, options.kills) else 1


if __name__ == "__main__":
    raise SystemExit(main())
