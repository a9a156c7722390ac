"""Live containers through the broker: what one rollout did to its sandbox and a fork bomb in it reach no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import orjson
import pytest

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.sandbox.pipe import Pipe
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Grant
from tests.support.docker import engine_client
from tests.support.sandbox_broker import TOKEN, BrokerProcess, broker_process, eventually, until

pytestmark = pytest.mark.docker
IMAGE = "python:3.13-slim"
SPEC = {"image": IMAGE, "limits": {"pids": 48, "memory": "128m", "cpus": 0.5}}
# A shell that finds no process left ends itself, with 2: the one that stays forks once, before anything bombs.
BOMB = "bomb() { bomb | bomb & }; echo lit; bomb & while :; do :; done"
SOIL = (
    "touch /tmp/left /root/left /dev/shm/left; echo evil >> /etc/passwd; rm -f /usr/local/bin/python3; "
    "setsid sh -c 'while :; do sleep 1; done' >/dev/null 2>&1 & "
    "echo soiled"
)
LOOK = (
    "ls /tmp /root /dev/shm; grep -c evil /etc/passwd; python3 -c 'print(6 * 7)'; "
    "for one in /proc/[0-9]*; do cat $one/comm 2>/dev/null; done"
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path, "docker", grant=Grant(images=(IMAGE,), warm=3)) as running:
        yield running


@pytest.fixture
async def sandboxes(broker: BrokerProcess) -> AsyncIterator[Sandboxes]:
    async with Sandboxes(broker.url, TOKEN) as client:
        yield client


async def ready(sandboxes: Sandboxes) -> int:
    return sum(pool["ready"] for pool in (await sandboxes.status())["warm"])


async def look(sandbox: Sandbox) -> tuple[str, set[str]]:
    """What stands in it, and which processes it has beside the one that looks."""
    found = (await sandbox.exec(LOOK)).stdout.text.split("\n")
    at = found.index("42")
    return "\n".join(found[: at + 1]), set(found[at + 1 :]) - {"", "sh", "cat", "gym-guardian"}


async def test_whatever_a_rollout_did_to_its_sandbox_the_next_one_gets_another(sandboxes: Sandboxes) -> None:
    first = await sandboxes.create(SPEC)
    clean = await look(first)
    assert clean[1] == {"gym-init"}
    seen = {first.id}
    for _ in range(3):
        made = [await sandboxes.create(SPEC) for _ in range(2)]
        for sandbox in made:
            assert await look(sandbox) == clean
            assert (await sandbox.exec(SOIL)).stdout.text == "soiled\n"
        assert len(seen & {sandbox.id for sandbox in made}) == 0
        seen |= {sandbox.id for sandbox in made}
        await made[0].delete()  # one is given back, one is kept: neither is handed out again
        await eventually(lambda: ready(sandboxes))
    assert sum(pool["hits"] for pool in (await sandboxes.status())["warm"]) >= 2


async def test_beside_a_fork_bomb_everybody_is_answered_and_it_is_reported_as_what_it_was(sandboxes: Sandboxes) -> None:
    bad, neighbour = await sandboxes.create(SPEC), await sandboxes.create(SPEC)
    lit = asyncio.Event()
    bomb = asyncio.create_task(bad.exec(BOMB, timeout=6, on_output=lambda *_: lit.set()))
    await lit.wait()
    replies = [await answer(bad) for _ in range(5)]
    assert set(replies) <= {"fine", "no process was to be had"}, replies
    assert (await neighbour.exec("echo fine")).stdout.text == "fine\n"
    ended = await bomb
    assert (ended.timed_out, ended.exit_code, ended.stdout.text) == (True, None, "lit\n")
    assert (await bad.exec("echo fine; ls -d /proc/[0-9]* | wc -l")).stdout.text.split()[0] == "fine"
    assert await answer(bad) == "fine"
    assert (await bad.inspect()).state == "running"


async def answer(sandbox: Sandbox) -> str:
    """Of another command in the same sandbox: it runs, or its error says that no process is left for it."""
    try:
        return (await sandbox.exec("echo fine", timeout=120)).stdout.text.strip()
    except RolloutError as error:
        known = "pids limit" in error.message and not error.retryable
        return "no process was to be had" if known else repr(error)


async def test_a_sandbox_with_a_fork_bomb_in_it_is_removed_at_the_first_try(
    broker: BrokerProcess, sandboxes: Sandboxes
) -> None:
    bad = await sandboxes.create(SPEC)
    job = await bad.start_job(BOMB, timeout=300)
    async with asyncio.timeout(120):
        while not ((await job.inspect()).result or pytest.fail("no result")).stdout.text:
            await asyncio.sleep(0.05)
    reply = await sandboxes.call("DELETE", f"/sandboxes/{bad.id}", timeout=240.0)
    assert orjson.loads(reply.body) == {"id": bad.id, "removed": True}
    with engine_client() as client:
        assert client.api.containers(all=True, filters={"name": bad.id}) == []
    await until(lambda: f'"event":"remove","sandbox":"{bad.id}"' in broker.log)
    assert (await sandboxes.status())["removals"]["failing"] == {}


async def test_a_command_whose_sandbox_ends_under_it_gets_the_reason(sandboxes: Sandboxes) -> None:
    full, killed = await sandboxes.create({"image": IMAGE, "limits": {"disk": "96m"}}), await sandboxes.create(SPEC)
    with pytest.raises(RolloutError, match=r"is lost: its files took \d+ bytes; `limits.disk` is") as lost:
        await full.exec("for i in 1 2 3; do head -c 64000000 /dev/zero > /part-$i; done; sync; sleep 300", timeout=400)
    assert (lost.value.kind, lost.value.status, lost.value.retryable) == ("sandbox", 410, True)
    pipe = await Pipe.open(sandboxes, killed.id, "echo begun; exec sleep 300")
    assert await pipe.read() == b"begun\n"
    with engine_client() as client:
        await asyncio.to_thread(client.api.kill, f"gym-{killed.id}")
    with pytest.raises(RolloutError, match="its first process ended with exit code 137"):
        await pipe.read()
    pipe.close()
    assert (await killed.inspect()).state == "lost"
