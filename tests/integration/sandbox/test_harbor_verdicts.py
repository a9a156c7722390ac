"""Verdicts on a real engine: solutions, what an agent may leave where rewards are written, lost sandboxes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.harbor import FORGED, LEAVE_DAEMON, at_work, harbor_on, hello, judged
from tests.support.swe import Process, answer

pytestmark = pytest.mark.docker

DEEP = (
    "import os; os.makedirs('/logs/verifier', exist_ok=True); os.chdir('/logs/verifier')\n"
    "for _ in range(1500): os.mkdir('deeper'); os.chdir('deeper')\n"
    "open('reward.json', 'w').write('1')"
)
LEFT = {
    "a reward in a folder that may not be written": f"{FORGED}; chmod 555 /logs/verifier",
    "a reward in a folder of which nothing may be done": f"{FORGED}; chmod 0 /logs/verifier",
    "a reward below folders that may not be written": f"{FORGED}; chmod 555 /logs/verifier /logs",
    "a folder of logs that may not be written": "mkdir -p /logs; chmod 555 /logs",
    "a reward that may not be written": f"{FORGED}; chmod 444 /logs/verifier/reward.json; chmod 1555 /logs/verifier",
    "a link to a folder elsewhere": f"{FORGED}; mv /logs/verifier /opt/kept; ln -s /opt/kept /logs/verifier",
    "logs that are a link": f"{FORGED}; mv /logs /opt/logs; ln -s /opt/logs /logs; chmod 555 /opt/logs/verifier",
    "logs that are a link to nowhere": "rm -rf /logs; ln -s /nowhere/at/all /logs",
    "logs that are a link to /proc": "rm -rf /logs; ln -s /proc/self /logs",
    "logs that are a file": "rm -rf /logs; echo 1 > /logs",
    "a reward that is a folder": "mkdir -p /logs/verifier/reward.json /logs/verifier/reward.txt",
    "a reward that is a pipe": "mkdir -p /logs/verifier; mkfifo /logs/verifier/reward.json",
    "a folder deeper than any path": f"cat > /tmp/deep.py <<'EOF'\n{DEEP}\nEOF\npython3 /tmp/deep.py",
    "tests that may not be written": "mkdir -p /tests; echo 'exit 0' > /tests/test.sh; chmod 555 /tests",
    "tests that are a link": f"{FORGED}; rm -rf /tests; ln -s /logs/verifier /tests",
}
BROKEN = {
    "no shell is left": "rm -f /bin/bash /usr/bin/bash",
    "a shell that does nothing": "printf '#!/bin/sh\\nexit 0\\n' > /tmp/x; chmod 755 /tmp/x; mv -f /tmp/x /bin/bash",
    "a shell that never ends": "printf '#!/bin/sh\\nsleep 1000\\n' > /tmp/x; chmod 755 /tmp/x; mv -f /tmp/x /bin/bash",
}


@pytest.fixture(scope="module")
def harbor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with harbor_on(tmp_path_factory.mktemp("harbor"), "docker") as (_, running):
        yield running


@pytest.fixture
def task(tmp_path: Path) -> dict[str, Any]:
    return hello(tmp_path / "hello")


@pytest.mark.parametrize("separate", [False, True])
async def test_a_task_is_judged_by_a_verifier_of_its_own(harbor: Process, task: dict[str, Any], separate: bool) -> None:
    if separate:
        task["harbor"] |= {"separate": True, "artifacts": [{"source": "/app/answer.txt"}]}
    for command, reward in (("echo 42 > /app/answer.txt", 1.0), ("echo 41 > /app/answer.txt", 0.0), ("true", 0.0)):
        async with at_work(harbor, task, command) as (caller, handle):
            reply = await caller.post("/verify", {**task, "response": answer()})
        assert (reply.status, reply.body["reward"]) == (200, reward), reply.body
        assert reply.body["verifier_sandbox"] != handle["id"]


async def test_a_separate_verifier_with_an_image_of_its_own_keeps_the_tests_that_it_has(
    harbor: Process, task: dict[str, Any]
) -> None:
    made = "RUN mkdir -p /tests && echo 42 > /tests/expected\nCOPY test.sh /tests/\n"
    script = 'cmp /tests/expected /app/answer.txt && r=1 || r=0; echo "{\\"reward\\": $r}" > /logs/verifier/reward.json'
    tests = {"dockerfile": f"FROM python:3.13-slim\n{made}", "files": {"test.sh": script}}
    task["harbor"] |= {"separate": True, "tests": tests, "artifacts": [{"source": "/app/answer.txt"}]}
    assert (await judged(harbor, task, "echo 42 > /app/answer.txt"))["reward"] == 1.0
    assert (await judged(harbor, task, "echo 41 > /app/answer.txt; " + FORGED))["reward"] == 0.0


async def test_rewards_written_by_the_agent_or_by_what_it_left_running_count_for_nothing(
    harbor: Process, task: dict[str, Any]
) -> None:
    own = "mkdir -p /tests; echo 'exit 0' > /tests/test.sh"
    reply = await judged(harbor, task, FORGED, own, LEAVE_DAEMON)
    assert reply["reward"] == 0.0, reply


async def test_a_sandbox_that_its_agent_filled_is_worth_nothing_and_says_why(
    harbor: Process, task: dict[str, Any]
) -> None:
    task["storage_mb"] = 48
    async with at_work(harbor, task, "echo 42 > /app/answer.txt") as (caller, _):
        said = ""
        while "is lost" not in said:
            said = str((await caller.post("/bash", {"command": "head -c 8M /dev/zero > /app/full-$(date +%N)"})).body)
        reply = await caller.post("/verify", {**task, "response": answer()})
    assert (reply.status, reply.body["reward"]) == (200, 0.0), reply.body
    assert "limits.disk" in reply.body["reason"]


async def test_a_sandbox_that_was_ended_from_outside_is_a_failure_and_no_zero(
    harbor: Process, task: dict[str, Any]
) -> None:
    async with at_work(harbor, task, "echo 42 > /app/answer.txt") as (caller, handle):
        look = ["docker", "ps", "-q", "--no-trunc", "--filter", f"label=gym.sandbox={handle['id']}"]
        named = subprocess.run(look, capture_output=True, text=True, check=True).stdout.split()
        assert len(named) == 1, "the container of the session"
        subprocess.run(["docker", "rm", "-f", *named], check=True, capture_output=True)
        reply = await caller.post("/verify", {**task, "response": answer()})
    assert reply.status >= 500
    assert (reply.body["error"]["kind"], reply.body["error"]["retryable"]) == ("sandbox", True)


@pytest.mark.parametrize("name", LEFT)
async def test_what_the_agent_left_for_the_verifier_earns_nothing(
    harbor: Process, task: dict[str, Any], name: str
) -> None:
    reply = await judged(harbor, task, LEFT[name])
    assert reply["reward"] == 0.0, reply
    assert reply["reason"]


async def test_what_the_agent_left_takes_nothing_from_one_that_did_the_work(
    harbor: Process, task: dict[str, Any]
) -> None:
    reply = await judged(harbor, task, "echo 42 > /app/answer.txt", f"{FORGED}; chmod 555 /logs/verifier /logs")
    assert (reply["reward"], reply.get("reason")) == (1.0, None)


@pytest.mark.parametrize("name", BROKEN)
async def test_an_agent_that_breaks_the_verifier_scores_nothing_and_gets_the_reason(
    harbor: Process, task: dict[str, Any], name: str
) -> None:
    task["harbor"]["timeout"] = 12  # of which the verifier may take half
    reply = await judged(harbor, task, "echo 42 > /app/answer.txt", BROKEN[name])
    assert reply["reward"] == 0.0
    assert "where no agent was the verifier does its work" in reply["reason"]


async def test_a_verifier_that_writes_no_reward_anywhere_is_a_failure_and_no_zero(
    harbor: Process, task: dict[str, Any]
) -> None:
    task["harbor"]["tests"]["files"]["test.sh"] = "exit 0"
    async with at_work(harbor, task) as (caller, _):
        reply = await caller.post("/verify", {**task, "response": answer()})
    assert (reply.status >= 500, reply.body["error"]["kind"]) == (True, "resources"), reply.body


ARTIFACTS = {
    "a file without end": "ln -s /dev/zero /app/answer.txt",
    "a file of holes": "truncate -s 2T /app/answer.txt || truncate -s 9G /app/answer.txt",
    "a folder of holes": "mkdir /app/answer.txt; truncate -s 9G /app/answer.txt/x",
    "a folder with a link to the expected": "mkdir /app/answer.txt; ln -s /tests/test.sh /app/answer.txt/x",
    "a folder that cannot be read": "mkdir /app/answer.txt; echo 42 > /app/answer.txt/x; chmod 0 /app/answer.txt/x",
    "a pipe": "mkfifo /app/answer.txt",
}


@pytest.mark.parametrize("name", ARTIFACTS)
async def test_an_artifact_that_cannot_be_taken_is_missing_and_no_failure(
    harbor: Process, task: dict[str, Any], name: str
) -> None:
    task["harbor"] |= {"separate": True, "artifacts": [{"source": "/app/answer.txt"}]}
    reply = await judged(harbor, task, ARTIFACTS[name])
    assert reply["reward"] == 0.0
    assert reply["reason"]
