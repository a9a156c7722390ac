"""`gym chaos` on a local stack: faults of every kind, and no rollout suffers; nothing is killed without a word."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.support.chaos_stack import StackForChaos, stack_for_chaos
from tests.support.cli import gym

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
SECONDS = 500.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackForChaos]:
    with stack_for_chaos(tmp_path_factory.mktemp("chaos"), "local", 40, ("mcqa", "stateful_counter")) as one:
        yield one


def test_two_minutes_of_faults_of_every_kind_cost_no_rollout_and_leave_nothing(stack: StackForChaos) -> None:
    words = ("--rollouts", "160", "--minutes", "2", "--seed", "5", "--concurrency", "8")
    code, report, said = stack.chaos(*words, timeout=SECONDS)
    assert code == 0, said[-4000:]
    assert report["problems"] == []
    assert report["faults"]
    assert report["verdict"]["rollouts"] == 160 * report["rounds"]
    kinds = {one["name"].partition("-")[0] for one in report["faults"]}
    assert kinds <= {"kill", "pause", "clock", "collector", "model", "restart"}
    assert all(one["recovery"]["served"] is not None for one in report["faults"])
    assert report["model_calls"] > 160
    assert {"router", "supervisor", "mcqa-1"} <= report["processes"].keys()
    assert (stack.folder / "out" / "report.json").is_file()


def test_it_kills_nothing_without_a_confirmation(stack: StackForChaos) -> None:
    done = gym("chaos", str(stack.rows), "-o", "other", cwd=stack.folder)
    assert done.returncode == 1
    assert "Say it with --yes" in done.stderr
    assert not (stack.folder / "other").exists()


def test_a_fault_that_is_none_is_refused_with_those_there_are(stack: StackForChaos) -> None:
    done = gym("chaos", str(stack.rows), "-o", "other", "--yes", "--faults", "kill,meteor", cwd=stack.folder)
    assert done.returncode == 1
    assert "meteor" in done.stderr
    assert "restart-killed" in done.stderr
