"""Verdicts on a real engine: gold and empty patches, patches that never end, lost sandboxes, Harbor folders."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from docker.errors import APIError

from gym.server.testing import Caller
from tests.support.docker import engine_client
from tests.support.sandbox_broker import BrokerProcess
from tests.support.swe import SWE, Process, answer, fields_for, row, rows, server, session

pytestmark = pytest.mark.docker
NAMES = [one["instance_id"] for one in rows()]
ENDLESS = "import time\nwhile True:\n    time.sleep(1)\n"


async def verified(swe: Process, task: dict[str, Any], text: str = "") -> tuple[int, dict[str, Any]]:
    async with Caller(swe.url) as caller:
        reply = await caller.post("/verify", {**task, "response": answer(text)})
        return reply.status, reply.body


async def typed(caller: Caller, command: str) -> str:
    reply = await caller.post("/bash", {"command": command})
    assert reply.status == 200, reply.body
    return str(reply.body)


def fenced(patch: str) -> str:
    return f"```diff\n{patch}```"


@pytest.mark.parametrize("name", NAMES)
async def test_gold_is_worth_one_and_nothing_is_worth_nothing(swe: Process, name: str) -> None:
    task = row(name)
    status, body = await verified(swe, task, fenced(task["patch"]))
    assert (status, body["reward"], body.get("reason")) == (200, 1.0, None)
    report = body["eval_report"][name]
    assert report["tests_status"]["FAIL_TO_PASS"] == {"success": task["FAIL_TO_PASS"], "failure": []}
    assert report["tests_status"]["PASS_TO_PASS"] == {"success": task["PASS_TO_PASS"], "failure": []}
    status, body = await verified(swe, task)
    assert (status, body["reward"], body["reason"]) == (200, 0.0, "the patch is empty")


async def test_untracked_and_binary_files_are_part_of_the_patch(swe: Process) -> None:
    task = row("tinyroute")
    async with session(swe, task) as (caller, _):
        await typed(caller, r"printf 'P\000\377' > logo.bin; printf 'caf\351' > latin.txt")
        await typed(caller, "echo 'a b' > 'with blank.txt'; rm README.md")
        reply = await caller.post("/verify", {**task, "response": answer()})
    patch = reply.body["model_patch"]
    assert reply.body["eval_report"][task["instance_id"]]["patch_successfully_applied"] is True
    assert "GIT binary patch" in patch
    assert "with blank.txt" in patch
    assert "latin.txt" in patch
    assert "deleted file mode" in patch


async def test_a_patch_that_never_ends_is_to_blame_when_gold_does_end(swe_broker: BrokerProcess) -> None:
    task = {**row("tinyroute"), "eval_timeout": 30}  # of which the gold patch may take half
    fields = {**fields_for("docker"), "eval_timeout": 30}
    with server(SWE, swe_broker.folder / "slow.log", fields, name="swe", broker=swe_broker) as swe:
        async with session(swe, task) as (caller, _):
            await typed(caller, f"printf '{ENDLESS}' >> tinyroute/__init__.py".replace("\n", "\\n"))
            reply = await caller.post("/verify", {**task, "response": answer()})
    assert (reply.status, reply.body["reward"]) == (200, 0.0), reply.body
    assert "ran out of time; with the gold patch they take" in reply.body["reason"]


@asynccontextmanager
async def ending(swe_broker: BrokerProcess) -> AsyncIterator[list[str]]:
    """Ends every sandbox in which a test has begun to run what the patch says, and no other; those it ended."""
    ended: list[str] = []

    async def look() -> None:
        while True:
            await asyncio.sleep(0.05)
            for one in await asyncio.to_thread(graders, client, swe_broker.stack):
                with suppress(APIError):  # it has ended between two looks
                    begun = client.api.exec_create(one, ["test", "-e", "/tmp/begun"])
                    client.api.exec_start(begun["Id"])
                    if client.api.exec_inspect(begun["Id"])["ExitCode"] == 0:
                        client.api.kill(one)
                        ended.append(one)

    with engine_client() as client:
        looking = asyncio.create_task(look())
        try:
            yield ended
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


def graders(client: Any, stack: str) -> list[str]:
    wanted = {"label": [f"gym.stack={stack}", "swe.role=grading"], "status": "running"}
    return [one["Id"] for one in client.api.containers(filters=wanted)]


@pytest.mark.parametrize("gold", [True, False])
async def test_a_patch_under_which_every_sandbox_is_lost_is_to_blame_when_gold_keeps_its_own(
    swe_broker: BrokerProcess, swe: Process, gold: bool
) -> None:
    task = row("tinyroute")
    async with session(swe, task) as (caller, _), ending(swe_broker) as ended:
        begin = "import time; open('/tmp/begun', 'w').close(); time.sleep(100)"
        await typed(caller, f'echo "{begin}" >> tinyroute/__init__.py')
        asked = task if gold else {**task, "patch": ""}
        reply = await caller.post("/verify", {**asked, "response": answer()})
        assert len(ended) == 2
    if gold:
        assert (reply.status, reply.body["reward"]) == (200, 0.0), reply.body
        assert "the tests lost two sandboxes" in reply.body["reason"]
        assert "with the gold patch they take" in reply.body["reason"]
    else:
        assert (reply.status, reply.body["error"]["kind"], reply.body["error"]["retryable"]) == (500, "sandbox", True)


async def test_a_timeout_that_gold_shares_is_not_a_zero(swe: Process) -> None:
    task = row("tinyroute")
    gold = "--- a/tinyroute/__init__.py\n+++ b/tinyroute/__init__.py\n@@ -1 +1,3 @@\n+while True:\n+    pass\n"
    gold += f" {task['build']['files']['repo/tinyroute/__init__.py'].splitlines()[0]}\n"
    status, body = await verified(swe, {**task, "eval_timeout": 8, "patch": gold}, fenced(gold))
    assert (status, body["error"]["kind"]) == (504, "timeout"), body
    assert "with the gold patch too" in body["error"]["message"]


async def test_a_lost_sandbox_is_a_failure_and_no_zero(swe: Process) -> None:
    task = row("tinyroute")
    async with session(swe, task) as (caller, sandbox_id):
        named = subprocess.run(
            ["docker", "ps", "-q", "--no-trunc", "--filter", f"label=gym.sandbox={sandbox_id}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert len(named) == 1, "the container of the session"
        subprocess.run(["docker", "rm", "-f", *named], check=True, capture_output=True)
        reply = await caller.post("/verify", {**task, "response": answer()})
    assert reply.status >= 500
    assert reply.body["error"]["kind"] == "sandbox"


async def test_an_image_that_cannot_be_had_is_a_failure_and_no_zero(swe: Process) -> None:
    task = {**row("tinyroute"), "image_name": "docker.io/swebench/nothing:latest"}
    status, body = await verified(swe, task, fenced(task["patch"]))
    assert status >= 400
    assert "reward" not in body
    broken = {**row("tinyroute"), "build": {"dockerfile": "FROM python:3.13-slim\nRUN echo broken >&2; exit 3\n"}}
    status, body = await verified(swe, broken, fenced(task["patch"]))
    assert status >= 400
    assert "reward" not in body
    assert "broken" in body["error"]["message"]


async def test_a_test_patch_that_does_not_fit_is_the_rows_fault(swe: Process) -> None:
    task = row("tinyroute")
    status, body = await verified(swe, {**task, "test_patch": row("spans")["patch"]}, fenced(task["patch"]))
    assert (status, body["error"]["kind"]) == (422, "row"), body


async def test_an_image_without_pytest_is_a_failure_and_no_zero(swe: Process) -> None:
    task = row("tinyroute")
    lines = task["build"]["dockerfile"].rstrip("\n") + "\nRUN rm -rf /usr/lib/python3/dist-packages/_pytest\n"
    build = {**task["build"], "dockerfile": lines}
    status, body = await verified(swe, {**task, "build": build}, fenced(task["patch"]))
    assert (status >= 500, body["error"]["kind"]) == (True, "sandbox"), body
    assert "pytest" in body["error"]["message"]
