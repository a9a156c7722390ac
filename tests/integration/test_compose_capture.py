"""Recorded sessions on Compose: two replicas of a model behind the router, one trace, and what a lost replica means."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gym.runtime.status import StackStatus
from gym.testing import GymStack
from tests.support.docker import call, end_processes, eventually, replicas

pytestmark = pytest.mark.docker

ROWS = Path(__file__).parents[2] / "servers" / "resources" / "simple_weather" / "data" / "example.jsonl"
SESSION = "/s/policy_model/sessions/shared"


def test_a_session_is_gathered_from_two_replicas_and_missed_when_one_is_lost() -> None:
    with GymStack("simple_weather", runtime="compose").with_replicas("policy_model", 2) as stack:
        status = stack.status()
        assert status.healthy
        made = call_until_two_answered(status)
        run_with_trace(status)
        end_processes(replicas(status)["policy-model-2"])
        kind = eventually(lambda: kind_of_trace(status, made), lambda kind: kind == "lost_session")
        assert kind == "lost_session"


def call_until_two_answered(status: StackStatus) -> int:
    """Without cookies they take turns, once the router found both well; how many calls that took, all in the trace.

    Two calls at least between looks: a look has its turn as well, and every second turn is the same replica's.
    """
    made = 0
    deadline = time.monotonic() + 120
    while True:
        for _ in range(3):
            code, body, _ = call(status, "POST", f"{SESSION}/v1/responses", {"input": f"call {made}"})
            assert code == 200, body
            made += 1
        code, body, _ = call(status, "GET", f"{SESSION}/trace")
        assert code == 200, body
        found = json.loads(body)["calls"]
        assert [one["request"]["input"] for one in found] == [f"call {number}" for number in range(made)]
        if made >= 6 and len({one["id"].split("-")[-2] for one in found}) == 2:
            return made
        assert time.monotonic() < deadline, f"one replica alone answered {made} calls"


def run_with_trace(status: StackStatus) -> None:
    row = json.loads(ROWS.read_text("utf-8").splitlines()[0])
    code, body, _ = call(status, "POST", "/s/simple_weather_simple_agent/run", {**row, "return_trace": True})
    assert code == 200, body
    rollout = json.loads(body)
    assert (rollout["reward"], rollout["trace"]["complete"], len(rollout["trace"]["calls"])) == (1.0, True, 2)


def kind_of_trace(status: StackStatus, made: int) -> str:
    """Never a trace of half the calls: whole as long as both are there, then a failure."""
    code, body, _ = call(status, "GET", f"{SESSION}/trace")
    if code == 200:
        assert len(json.loads(body)["calls"]) == made
        return ""
    return str(json.loads(body)["error"]["kind"]) if body.startswith(b"{") else body.decode()
