"""Kills, pauses and cuts off the containers of a stack on Compose while it collects, and kills its `gym up`.

    PYTHONPATH=. .venv/bin/python tests/bench/compose_chaos.py [--rounds 2] [--rows 400] [--seed 7]

A round meets every kind of container with every kind of fault. After each, no command is typed: the time until every
instance is served through the router is printed. Exit code 1 when a rollout is lost, doubled or rewarded otherwise, or
when an instance is not served again in time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.support.compose_chaos import (
    FAULTS,
    RECOVERED_WITHIN,
    Campaign,
    Recovery,
    every_fault,
    run_campaign,
    running_chaos_stack,
    undisturbed,
)


def show(campaign: Campaign, seconds: float) -> None:
    print(f"{'fault':<14} {'container':<18} {'times':>5} {'served again, s':>17} {'all healthy, s':>17}")
    for name, victim in dict.fromkeys((one.fault, one.victim) for one in campaign.faults):
        own = [one for one in campaign.faults if (one.fault, one.victim) == (name, victim)]
        served, whole = (_spread(own, key) for key in ("seconds", "whole"))
        print(f"{name:<14} {victim:<18} {len(own):>5} {served:>17} {whole:>17}")
    found = campaign.verdict
    print(
        f"{len(campaign.faults)} faults in {seconds:.0f} s, {campaign.rollouts:,} rollouts compared, "
        f"{campaign.second_attempts} of them second tries, {campaign.starts} collectors: "
        f"{found.missing + found.failed} lost, {found.doubled + found.strange} doubled, "
        f"{found.wrong} with another reward"
    )
    for one in campaign.late:
        print(f"LATE: {one}")


def _spread(recoveries: Iterable[Recovery], key: str) -> str:
    values = [float(getattr(one, key)) for one in recoveries]
    return f"{statistics.median(values):.1f} (max {max(values):.1f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", default="", help="names of faults, with commas")
    options = parser.parse_args()
    chosen = [one for one in FAULTS if not options.only or one.name in options.only.split(",")]
    plan = every_fault(chosen) * options.rounds
    with (
        tempfile.TemporaryDirectory() as folder,
        running_chaos_stack(Path(folder), options.rows, options.seed) as stack,
    ):
        stack.chance.shuffle(plan)
        right = undisturbed(stack)
        print(
            f"seed {options.seed}, {os.cpu_count()} cores, {len(right)} rollouts a run, {len(plan)} faults", flush=True
        )
        began = time.monotonic()
        campaign = run_campaign(stack, plan, right, on_recovery=lambda one: print(f"  {one}", flush=True))
        show(campaign, time.monotonic() - began)
    clean = campaign.verdict.clean and not campaign.late
    print(f"clean: all served again within {RECOVERED_WITHIN:g} s, every rollout once" if clean else "NOT CLEAN")
    return 0 if clean else 1


if __name__ == "__main__":
    raise SystemExit(main())
