"""`gym chaos` on a stack of containers, one of whose verifiers works in sandboxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chaos_stack import stack_for_chaos

pytestmark = [pytest.mark.docker, pytest.mark.long]  # test_compose_midrun.py has one fault at a time


def test_after_each_fault_the_stack_serves_again_by_itself_and_every_rollout_is_there_once(tmp_path: Path) -> None:
    with stack_for_chaos(tmp_path, "compose", 120, ("mcqa", "stateful_counter", "sums")) as stack:
        words = ("--rollouts", "264", "--max-faults", "12", "--seed", "11", "--concurrency", "16")
        code, report, said = stack.chaos(*words, timeout=1500)
    assert code == 0, said[-4000:]
    assert report["problems"] == []
    assert len(report["faults"]) == 12
