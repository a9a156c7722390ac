"""Faults of a stack on Compose in mid-run, each of another kind: the short version of tests/bench/compose_chaos.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.compose_chaos import FAULTS, every_fault, run_campaign, running_chaos_stack, undisturbed

pytestmark = [pytest.mark.docker, pytest.mark.long]  # test_compose_midrun.py has one fault at a time

ROWS = 120
CHOSEN = {
    ("docker kill", "policy-model"),
    ("docker kill", "router"),
    ("network cut", "stateful-counter"),
    ("pause", "mcqa-simple-agent"),
    ("gym up killed", "gym up"),
}


def test_after_each_fault_the_stack_serves_again_by_itself_and_every_rollout_is_there_once(tmp_path: Path) -> None:
    plan = [(fault, victim) for fault, victim in every_fault(FAULTS) if (fault.name, victim) in CHOSEN]
    assert len(plan) == len(CHOSEN)
    with running_chaos_stack(tmp_path, ROWS, seed=11) as stack:
        campaign = run_campaign(stack, plan, undisturbed(stack))
    assert campaign.verdict.clean, campaign
    assert all(one.served for one in campaign.faults), campaign.faults  # how fast it was the bench says
