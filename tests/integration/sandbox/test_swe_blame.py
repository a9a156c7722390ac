"""Who caused it decides: what the agent brings about is told to it and worth 0, what an engine does is a failure."""

from __future__ import annotations

import subprocess

import pytest

from gym.server.testing import Caller
from gym.wire.failures import RolloutError
from tests.support.sandbox_broker import BrokerProcess
from tests.support.sandbox_docker import lab, run
from tests.support.swe import SWE, Process, answer, fields_for, row, server, session

pytestmark = pytest.mark.docker
TIGHT = "48m"  # enough for git; less than /dev/shm takes
# Memory that no process holds, and then output that the first one holds: it is the largest, and has to go.
FILL = "head -c {half} /dev/zero > /dev/shm/x; head -c 200000000 /dev/zero"


async def test_the_provider_tells_whether_memory_or_somebody_else_ended_a_sandbox() -> None:
    async with lab() as one:
        filled, killed = await one.make(limits={"memory": "16m"}), await one.make(limits={"memory": "16m"})
        with pytest.raises(RolloutError, match="lost"):
            await run(filled, FILL.format(half=9 << 20), timeout=240, max_output=64 << 20)
        await filled.channel.wait_closed()
        assert "`limits.memory`" in await filled.why_lost()
        assert filled.own_doing
        await run(killed, "python3 -c 'x = bytearray(30 << 20)'", timeout=120)  # short of memory, and not lost by it
        subprocess.run(["docker", "kill", killed.container], check=True, capture_output=True)
        await killed.channel.wait_closed()
        assert "137" in await killed.why_lost()
        assert not killed.own_doing


async def test_an_agent_that_ends_its_own_sandbox_is_told_and_scores_nothing(swe_broker: BrokerProcess) -> None:
    fields = {**fields_for("docker"), "places": {"memory": TIGHT}, "max_output": 2 << 20}
    with server(SWE, swe_broker.folder / "tight.log", fields, name="swe", broker=swe_broker) as swe:
        async with session(swe, row("tinyroute")) as (caller, _):
            told = await caller.post("/run_command", {"command": FILL.format(half=40 << 20)})
            assert (told.status, "`limits.memory`" in told.body["output"]) == (200, True), told.body
            for tool, asked in (("/bash", {"command": "ls"}), ("/view", {"path": "."})):
                told = await caller.post(tool, asked)
                assert told.status == 200, told.body
                assert "`limits.memory`" in told.body
            told = await caller.post("/verify", {**row("tinyroute"), "response": answer()})
    assert (told.status, told.body["reward"]) == (200, 0.0), told.body
    assert "`limits.memory`" in told.body["reason"]


async def test_an_agent_that_leaves_no_shell_scores_nothing(swe: Process) -> None:
    async with session(swe, row("tinyroute")) as (caller, _):
        await caller.post("/run_command", {"command": "rm -f /bin/sh /bin/dash /bin/bash /usr/bin/git"})
        for tool, asked in (("/bash", {"command": "ls"}), ("/run_command", {"command": "ls"})):
            told = await caller.post(tool, asked)
            assert told.status == 200, told.body
        told = await caller.post("/verify", {**row("tinyroute"), "response": answer()})
    assert (told.status, told.body["reward"]) == (200, 0.0), told.body
    assert "no patch could be taken" in told.body["reason"]


async def test_a_shell_that_was_ended_between_two_commands_is_a_new_one(swe: Process) -> None:
    async with session(swe, row("tinyroute")) as (caller, _):
        told = await caller.post(
            "/bash", {"command": "(until [ -e /tmp/go ]; do sleep 0.05; done; kill -9 $$) & echo $$"}
        )
        pid = told.body.split()[0]
        ending = f"touch /tmp/go; while [ -d /proc/{pid} ]; do sleep 0.05; done"
        assert (await caller.post("/run_command", {"command": ending})).status == 200
        told = await caller.post("/bash", {"command": "echo alive"})
    assert (told.status, "alive" in told.body) == (200, True), told.body


NAMED = "diff --git a/No space left on device b/No space left on device\n--- a/No space left on device\n"
NAMED += "+++ b/No space left on device\n@@ -1 +1 @@\n-what is not there\n+x\n"


async def test_a_patch_of_a_file_called_no_space_left_does_not_apply_and_that_is_all(swe: Process) -> None:
    task = row("tinyroute")
    async with Caller(swe.url) as caller:
        told = await caller.post("/verify", {**task, "response": answer(f"```diff\n{NAMED}```")})
    assert (told.status, told.body["reward"]) == (200, 0.0), told.body
    assert "the patch does not apply" in told.body["reason"]


ENDLESS = {
    "/dev/zero": "true",
    "zero": "ln -sf /dev/zero zero",
    "pipe": "mkfifo pipe",
    "holes": "truncate -s 1T holes || truncate -s 3G holes",
    "linked": "truncate -s 3G /tmp/holes; ln -sf /tmp/holes linked",
    "socket": "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\"",
    "/proc/kmsg": "true",
    "/proc/1/mem": "true",
}


@pytest.mark.parametrize("path", ENDLESS)
async def test_what_has_no_end_is_not_shown(swe: Process, path: str) -> None:
    async with session(swe, row("tinyroute")) as (caller, _):
        await caller.post("/run_command", {"command": ENDLESS[path]})
        told = await caller.post("/view", {"path": path})
        assert (told.status, told.body[:6]) == (200, "Error:"), told.body[:300]
        edit = {"command": "str_replace", "path": path, "old_str": "a", "new_str": "b"}
        told = await caller.post("/edit", edit)
        assert (told.status, told.body[:6]) == (200, "Error:"), told.body[:300]
        told = await caller.post("/edit", {"command": "create", "path": "pipe", "file_text": "x"})
        assert told.status == 200, told.body


async def test_a_file_of_proc_is_shown_as_far_as_it_goes(swe: Process) -> None:
    async with session(swe, row("tinyroute")) as (caller, _):
        told = await caller.post("/view", {"path": "/proc/self/status"})
    assert "Name:" in told.body
