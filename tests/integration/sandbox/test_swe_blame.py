"""Who caused it decides: what the agent causes it sees as an error, worth 0, what an engine does is a failure."""

from __future__ import annotations

import subprocess

import pytest

from gym.server.testing import Caller
from gym.wire.failures import RolloutError
from tests.support.sandbox_broker import BrokerProcess
from tests.support.sandbox_docker import docker_harness, run
from tests.support.swe import SWE, Process, answer, fields_for, row, server, session

pytestmark = pytest.mark.docker
TIGHT = "48m"  # enough for git; less than /dev/shm takes
# Memory that no process holds, and then output that the first one holds: it is the largest, and has to go.
FILL = "head -c {half} /dev/zero > /dev/shm/x; head -c 200000000 /dev/zero"


async def test_the_provider_tells_whether_memory_or_another_cause_ended_a_sandbox() -> None:
    async with docker_harness() as one:
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


async def test_an_agent_that_ends_its_own_sandbox_gets_an_error_and_scores_nothing(swe_broker: BrokerProcess) -> None:
    fields = {**fields_for("docker"), "places": {"memory": TIGHT}, "max_output": 2 << 20}
    with server(SWE, swe_broker.folder / "tight.log", fields, name="swe", broker=swe_broker) as swe:
        async with session(swe, row("tinyroute")) as (caller, _):
            reply = await caller.post("/run_command", {"command": FILL.format(half=40 << 20)})
            assert (reply.status, "`limits.memory`" in reply.body["output"]) == (200, True), reply.body
            for tool, asked in (("/bash", {"command": "ls"}), ("/view", {"path": "."})):
                reply = await caller.post(tool, asked)
                assert reply.status == 200, reply.body
                assert "`limits.memory`" in reply.body
            reply = await caller.post("/verify", {**row("tinyroute"), "response": answer()})
    assert (reply.status, reply.body["reward"]) == (200, 0.0), reply.body
    assert "`limits.memory`" in reply.body["reason"]


async def test_an_agent_that_leaves_no_shell_scores_nothing(swe: Process) -> None:
    async with session(swe, row("tinyroute")) as (caller, _):
        await caller.post("/run_command", {"command": "rm -f /bin/sh /bin/dash /bin/bash /usr/bin/git"})
        for tool, asked in (("/bash", {"command": "ls"}), ("/run_command", {"command": "ls"})):
            reply = await caller.post(tool, asked)
            assert reply.status == 200, reply.body
        reply = await caller.post("/verify", {**row("tinyroute"), "response": answer()})
    assert (reply.status, reply.body["reward"]) == (200, 0.0), reply.body
    assert "no patch could be taken" in reply.body["reason"]


async def test_a_shell_that_was_ended_between_two_commands_is_a_new_one(swe: Process) -> None:
    async with session(swe, row("tinyroute")) as (caller, _):
        reply = await caller.post(
            "/bash", {"command": "(until [ -e /tmp/go ]; do sleep 0.05; done; kill -9 $$) & echo $$"}
        )
        pid = reply.body.split()[0]
        ending = f"touch /tmp/go; while [ -d /proc/{pid} ]; do sleep 0.05; done"
        assert (await caller.post("/run_command", {"command": ending})).status == 200
        reply = await caller.post("/bash", {"command": "echo alive"})
    assert (reply.status, "alive" in reply.body) == (200, True), reply.body


NAMED = "diff --git a/No space left on device b/No space left on device\n--- a/No space left on device\n"
NAMED += "+++ b/No space left on device\n@@ -1 +1 @@\n-what is not there\n+x\n"


async def test_a_patch_of_a_file_called_no_space_left_does_not_apply_and_that_is_all(swe: Process) -> None:
    task = row("tinyroute")
    async with Caller(swe.url) as caller:
        reply = await caller.post("/verify", {**task, "response": answer(f"```diff\n{NAMED}```")})
    assert (reply.status, reply.body["reward"]) == (200, 0.0), reply.body
    assert "the patch does not apply" in reply.body["reason"]


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
        reply = await caller.post("/view", {"path": path})
        assert (reply.status, reply.body[:6]) == (200, "Error:"), reply.body[:300]
        edit = {"command": "str_replace", "path": path, "old_str": "a", "new_str": "b"}
        reply = await caller.post("/edit", edit)
        assert (reply.status, reply.body[:6]) == (200, "Error:"), reply.body[:300]
        reply = await caller.post("/edit", {"command": "create", "path": "pipe", "file_text": "x"})
        assert reply.status == 200, reply.body


async def test_a_file_of_proc_is_shown_as_far_as_it_goes(swe: Process) -> None:
    async with session(swe, row("tinyroute")) as (caller, _):
        reply = await caller.post("/view", {"path": "/proc/self/status"})
    assert "Name:" in reply.body
