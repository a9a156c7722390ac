"""The broker with a Docker engine: what a killed broker leaves is adopted by the next, or gone; nothing remains."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.sandbox.broker_client import Sandboxes
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Grant
from tests.support.sandbox_broker import TOKEN, BrokerProcess, broker_process, until

pytestmark = pytest.mark.docker
IMAGE = "python:3.13-slim"
SPEC = {"image": IMAGE}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path, "docker", grant=Grant(images=(IMAGE,), warm=2)) as running:
        yield running
    assert not containers(running.stack)


@pytest.fixture
def with_short_leases(tmp_path: Path) -> Iterator[BrokerProcess]:
    """It gives the owners of what it adopts three seconds to come back."""
    with broker_process(tmp_path, "docker", grant=Grant(images=(IMAGE,), warm=2), lease_seconds=3.0) as running:
        yield running
    assert not containers(running.stack)


def containers(stack: str) -> list[str]:
    """By hand, past everything of ours: what the engine has of a stack, running or not."""
    argv = ["docker", "ps", "-a", "--no-trunc", "--filter", f"label=gym.stack={stack}", "--format", "{{json .}}"]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return [json.loads(line)["Names"] for line in listed.splitlines()]


async def test_a_sandbox_and_its_job_outlive_a_broker_that_was_killed(broker: BrokerProcess) -> None:
    async with Sandboxes(broker.url, TOKEN) as sandboxes:
        sandbox = await sandboxes.create({**SPEC, "ttl": 600}, rollout="1-1")
        await sandbox.put("/root/kept", b"before")
        job = await sandbox.start_job('while read -r line; do echo "got $line"; done')
        broker.kill()
        broker.start()
        assert await sandbox.get("/root/kept") == b"before"
        await job.write(b"again\n", close=True)
        result = await job.wait(120)
        assert result.stdout.text.endswith("got again\n")
        assert (await sandbox.inspect()).rollout == "1-1"
        assert await sandboxes.alive() == (sandbox.info,)
        assert '"event":"adopt","kept":1' in broker.log


async def test_what_a_killed_broker_and_a_killed_client_had_is_gone_after_the_next_start(
    with_short_leases: BrokerProcess,
) -> None:
    sandboxes = Sandboxes(with_short_leases.url, TOKEN)
    await asyncio.gather(*(sandboxes.create(SPEC) for _ in range(3)))
    await until(lambda: len(containers(with_short_leases.stack)) > 3)  # ready ones too
    assert sandboxes._lease_task is not None
    sandboxes._lease_task.cancel()
    await sandboxes._http.aclose()
    with_short_leases.kill()
    with_short_leases.start()
    await until(lambda: not containers(with_short_leases.stack))


async def test_a_broker_that_never_comes_back_leaves_nothing_either(broker: BrokerProcess) -> None:
    async with Sandboxes(broker.url, TOKEN) as sandboxes:
        await sandboxes.create(SPEC)
        broker.kill()
        await until(lambda: not containers(broker.stack))
        broker.start()  # for the client's goodbye


async def test_ready_sandboxes_are_handed_out_once(broker: BrokerProcess) -> None:
    async with Sandboxes(broker.url, TOKEN) as sandboxes:
        made = [await sandboxes.create(SPEC) for _ in range(2)]
        async with asyncio.timeout(120):
            while not any(pool["ready"] == 2 for pool in (await sandboxes.status())["warm"]):
                await asyncio.sleep(0.05)
        made += await asyncio.gather(*(sandboxes.create(SPEC) for _ in range(4)))
        for number, sandbox in enumerate(made):
            found = await sandbox.exec("ls /root; hostname")
            assert found.stdout.text.count("\n") == 1, f"sandbox {number} was used before"
            await sandbox.put("/root/used", b"")
        assert len({sandbox.id for sandbox in made}) == 6
        assert any(pool["hits"] >= 2 for pool in (await sandboxes.status())["warm"])


async def test_memory_is_limited_and_a_sandbox_that_died_of_it_says_so(broker: BrokerProcess) -> None:
    async with Sandboxes(broker.url, TOKEN) as sandboxes:
        sandbox = await sandboxes.create({**SPEC, "limits": {"memory": "64m"}})
        neighbour = await sandboxes.create(SPEC)
        hog = await sandbox.exec(["python3", "-c", "x = bytearray(10**9)"])
        assert hog.oom
        assert not hog.ok
        assert (await neighbour.exec(["true"])).ok


async def test_an_image_that_is_not_there_is_the_askers_fault(tmp_path: Path) -> None:
    with broker_process(tmp_path, "docker", grant=Grant(images=("*",), warm=0)) as broker:
        async with Sandboxes(broker.url, TOKEN) as sandboxes:
            with pytest.raises(RolloutError) as failed:
                await sandboxes.create({"image": "localhost:1/nothing-of-this-name:x"}, timeout=240)
            assert "nothing-of-this-name" in failed.value.message
            assert (await sandboxes.status())["breaker"]["state"] == "closed"


async def test_a_fork_works_through_the_broker(broker: BrokerProcess) -> None:
    async with Sandboxes(broker.url, TOKEN) as sandboxes:
        sandbox = await sandboxes.create(SPEC)
        await sandbox.put("/root/f", b"1")
        branch = await sandbox.fork()
        await branch.put("/root/f", b"2")
        assert await sandbox.get("/root/f") == b"1"
