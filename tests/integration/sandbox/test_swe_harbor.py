"""What an agent may leave where its verifier writes the reward: worth nothing, and no failure either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.server.testing import Caller
from tests.integration.sandbox.test_swe_verdicts import harbor_row
from tests.support.swe import Process, answer

pytestmark = pytest.mark.docker

FORGED = "mkdir -p /logs/verifier && echo '{\"reward\": 1}' > /logs/verifier/reward.json"
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
    "a shell that does nothing": "printf '#!/bin/sh\\nexit 0\\n' > /tmp/x; chmod 755 /tmp/x; cp /tmp/x /bin/bash",
    "a shell that never ends": "printf '#!/bin/sh\\nsleep 1000\\n' > /tmp/x; chmod 755 /tmp/x; cp /tmp/x /bin/bash",
}


@pytest.fixture
def task(tmp_path: Path) -> dict[str, Any]:
    return harbor_row(tmp_path / "hello")


async def judged(swe: Process, task: dict[str, Any], *commands: str) -> dict[str, Any]:
    async with Caller(swe.url) as caller:
        seeded = await caller.post("/seed_session", task)
        assert seeded.status == 200, seeded.body
        for command in commands:
            reply = await caller.post("/run_command", {"command": command})
            assert reply.status == 200, reply.body
        reply = await caller.post("/verify", {**task, "response": answer()})
        assert reply.status == 200, reply.body
        body: dict[str, Any] = reply.body
        return body


@pytest.mark.parametrize("name", LEFT)
async def test_what_the_agent_left_for_the_verifier_earns_nothing(
    swe: Process, task: dict[str, Any], name: str
) -> None:
    reply = await judged(swe, task, LEFT[name])
    assert reply["reward"] == 0.0, reply
    assert reply["reason"]


async def test_what_the_agent_left_takes_nothing_from_one_that_did_the_work(swe: Process, task: dict[str, Any]) -> None:
    reply = await judged(swe, task, "echo 42 > /app/answer.txt", f"{FORGED}; chmod 555 /logs/verifier /logs")
    assert (reply["reward"], reply.get("reason")) == (1.0, None)


@pytest.mark.parametrize("name", BROKEN)
async def test_an_agent_that_breaks_the_verifier_scores_nothing_and_gets_the_reason(
    swe: Process, task: dict[str, Any], name: str
) -> None:
    task["harbor"]["timeout"] = 12  # of which the verifier may take half
    reply = await judged(swe, task, "echo 42 > /app/answer.txt", BROKEN[name])
    assert reply["reward"] == 0.0
    assert "where no agent was the verifier does its work" in reply["reason"]


async def test_a_verifier_that_writes_no_reward_anywhere_is_a_failure_and_no_zero(
    swe: Process, task: dict[str, Any]
) -> None:
    task["harbor"]["tests"]["files"]["test.sh"] = "exit 0"
    async with Caller(swe.url) as caller:
        await caller.post("/seed_session", task)
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
    swe: Process, task: dict[str, Any], name: str
) -> None:
    task["harbor"] |= {"separate": True, "artifacts": [{"source": "/app/answer.txt"}]}
    reply = await judged(swe, task, ARTIFACTS[name])
    assert reply["reward"] == 0.0
    assert reply["reason"]
