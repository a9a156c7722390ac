"""Tasks of Harbor where there is no engine: they run out of this machine's own programs, and as walled."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym.server.testing import Caller
from tests.support.harbor import FORGED, HARBOR, LEAVE_DAEMON, at_work, harbor_on, hello, judged
from tests.support.swe import Process, answer

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
CASES = [json.loads(line) for line in (HARBOR / "data" / "verifier_cases.jsonl").read_text("utf-8").splitlines()]
ORACLES = {one["request"]["instance_id"]: one for one in CASES if one.get("oracle")}
WITHOUT_IMAGES = [name for name in ORACLES if not name.startswith("tb-")]


@pytest.fixture(scope="module")
def harbor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with harbor_on(tmp_path_factory.mktemp("harbor"), "bubblewrap") as (_, running):
        yield running


@pytest.mark.parametrize("name", WITHOUT_IMAGES)
async def test_the_solution_is_worth_one_and_nothing_is_worth_nothing(harbor: Process, name: str) -> None:
    case = ORACLES[name]
    solution = [step["arguments"]["command"] for step in case["steps"]]
    reply = await judged(harbor, case["request"], *solution)
    assert (reply["reward"], reply.get("reason")) == (1.0, None), reply
    reply = await judged(harbor, case["request"])
    assert reply["reward"] == 0.0
    assert reply["reason"] == "the task's tests did not all pass"


async def test_a_dockerfile_that_needs_an_image_is_the_rows_fault(harbor: Process) -> None:
    row = ORACLES["tb-slugs"]["request"]
    async with Caller(harbor.url) as caller:
        reply = await caller.post("/seed_session", row)
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row"), reply.body
    assert "line 2, `RUN" in reply.body["error"]["message"]


async def test_forged_rewards_and_what_the_agent_left_running_count_for_nothing(
    harbor: Process, tmp_path: Path
) -> None:
    task = hello(tmp_path / "hello")
    assert (await judged(harbor, task, FORGED, LEAVE_DAEMON))["reward"] == 0.0
    assert (await judged(harbor, task, "echo 42 > answer.txt", f"{FORGED}; chmod 555 /logs/verifier"))["reward"] == 1.0


async def test_tests_are_not_there_while_the_agent_works(harbor: Process, tmp_path: Path) -> None:
    async with at_work(harbor, hello(tmp_path / "hello")) as (caller, handle):
        shown = await caller.post("/bash", {"command": "pwd; ls -A /tests /logs; ls /solution"})
    assert "test.sh" not in shown.body
    assert "No such file" in shown.body
    assert handle["workdir"] == "/app"


async def test_the_agents_time_ends_its_commands_and_what_it_did_is_judged(harbor: Process, tmp_path: Path) -> None:
    task = hello(tmp_path / "hello", "[agent]\ntimeout_sec = 1.5\n")
    async with at_work(harbor, task, "echo 42 > answer.txt") as (caller, handle):
        assert handle["seconds"] == 1.5
        late = await caller.post("/bash", {"command": "sleep 1000"})
        assert "was ended after" in late.body
        replies: list[Any] = [
            (await caller.post("/bash", {"command": "echo 41 > answer.txt"})).body,
            (await caller.post("/start_job", {"command": "echo 41 > answer.txt"})).body,
            (await caller.post("/run_command", {"command": "echo 41 > answer.txt"})).body["output"],
        ]
        assert all("is used up" in one for one in replies), replies
        reply = await caller.post("/verify", {**task, "response": answer()})
    assert reply.body["reward"] == 1.0


async def test_a_verifier_that_fails_where_no_agent_was_is_a_failure_and_no_zero(
    harbor: Process, tmp_path: Path
) -> None:
    task = hello(tmp_path / "hello")
    task["harbor"]["tests"]["files"]["test.sh"] = "echo no tool here; exit 3"
    async with at_work(harbor, task) as (caller, _):
        reply = await caller.post("/verify", {**task, "response": answer()})
    assert (reply.status, reply.body["error"]["kind"]) == (500, "resources"), reply.body
    assert "ended with 3: no tool here" in reply.body["error"]["message"]


async def test_without_a_session_nothing_is_judged(harbor: Process, tmp_path: Path) -> None:
    task = hello(tmp_path / "hello")
    async with Caller(harbor.url) as caller:
        reply = await caller.post("/verify", {**task, "response": answer()})
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")


async def test_a_shared_sandbox_has_one_network(harbor: Process, tmp_path: Path) -> None:
    task = hello(tmp_path / "hello")
    task["harbor"]["network"] = ["pypi.org"]
    async with Caller(harbor.url) as caller:
        reply = await caller.post("/seed_session", task)
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert "environment_mode" in reply.body["error"]["message"]
