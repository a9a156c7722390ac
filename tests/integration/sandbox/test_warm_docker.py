"""Ready sandboxes on a real engine: each fits its request exactly, has one owner, and is gone when it is not needed."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym import labels
from gym.broker.providers.docker.create_body import labels_to_spec, labels_to_tags
from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Grant
from tests.support.sandbox_broker import OTHER_TOKEN, TOKEN, BrokerProcess, broker_process, eventually

pytestmark = pytest.mark.docker
IMAGE = "python:3.13-slim"
LIMITS = {"cpus": 0.5, "memory": "96m", "pids": 40, "disk": "64m"}
SPEC: dict[str, Any] = {
    "image": IMAGE,
    "limits": LIMITS,
    "ttl": 900,
    "labels": {"swe.role": "agent"},
    "env": {"KEY": "value"},
    "workdir": "/tmp",
}
GRANT = Grant(images=(IMAGE,), warm=2, max_sandboxes=5)
OF_EACH = (
    labels.SANDBOX,
    labels.INSTANCE,
    labels.SANDBOX_OWNER,
    labels.SANDBOX_ROLLOUT,
    labels.SANDBOX_EXPIRES,
    labels.SANDBOX_WARM,
)  # what the name of one says that was handed out later


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    other = GRANT.model_copy(update={"warm": 0})
    with broker_process(tmp_path, "docker", grant=GRANT, other=other, lease_seconds=60) as running:
        yield running
    assert not containers(running)


@pytest.fixture
async def sandboxes(broker: BrokerProcess) -> AsyncIterator[Sandboxes]:
    async with Sandboxes(broker.url, TOKEN) as client:
        yield client


async def test_one_from_the_pool_is_in_nothing_different_from_one_made_for_its_request(
    broker: BrokerProcess, sandboxes: Sandboxes
) -> None:
    (claimed,) = await claim(sandboxes, 1)
    async with Sandboxes(broker.url, OTHER_TOKEN) as others:
        made = await others.create(SPEC, rollout="1-1")
        ours, theirs = (one_container(broker, sandbox) for sandbox in (claimed, made))
        for one in (ours, theirs):
            for each in OF_EACH:
                one["Config"]["Labels"].pop(each, None)
            one["Config"].pop("Hostname")
        assert ours["Config"] == theirs["Config"]
        assert ours["HostConfig"] == theirs["HostConfig"]
        limits = ours["HostConfig"]
        assert (limits["Memory"], limits["PidsLimit"], limits["NanoCpus"]) == (96 << 20, 40, 5 * 10**8)
        kernel = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"  # v2, v1
        look = f"{kernel}; pwd; ulimit -a; env | grep -v HOSTNAME | sort"
        answers = [(await sandbox.exec(look)).stdout.text for sandbox in (claimed, made)]
        assert str(96 << 20) in answers[0]
        assert answers[0] == answers[1]
    assert (await claimed.exec("hostname")).stdout.text == f"{claimed.id}\n"


async def test_what_the_engine_knows_of_one_that_was_handed_out_is_its_owners(
    broker: BrokerProcess, sandboxes: Sandboxes
) -> None:
    (claimed,) = await claim(sandboxes, 1)

    async def tags() -> Any:
        found = one_container(broker, claimed)
        read = labels_to_tags(found["Config"]["Labels"], found["Name"])
        return read if not read.warm else None

    owner = await eventually(tags)
    assert (owner.instance, owner.owner, owner.rollout) == ("mcqa", sandboxes.owner, "1-1")
    found = one_container(broker, claimed)["Config"]
    spec = labels_to_spec(found["Labels"], found["Env"], found["Image"])
    assert (spec.ttl, spec.labels, spec.limits.memory) == (900, {"swe.role": "agent"}, 96 << 20)


async def test_two_owners_that_ask_at_once_never_share_one(broker: BrokerProcess, sandboxes: Sandboxes) -> None:
    await claim(sandboxes, 0)
    async with Sandboxes(broker.url, TOKEN) as second:
        made = await asyncio.gather(*(client.create(SPEC) for client in (sandboxes, second, sandboxes)))
        assert len({sandbox.id for sandbox in made}) == 3
        for number, sandbox in enumerate(made):
            await sandbox.put("/tmp/mine", str(number).encode())
        assert [await sandbox.get("/tmp/mine") for sandbox in made] == [b"0", b"1", b"2"]
        given = {sandbox.id for sandbox in made}
        for sandbox in made:
            await sandbox.delete()
        fresh = await second.create(SPEC)
        assert fresh.id not in given
        assert (await fresh.exec("ls /tmp")).stdout.text == ""


async def test_a_killed_broker_leaves_none_that_waited_and_keeps_those_that_were_handed_out(
    broker: BrokerProcess, sandboxes: Sandboxes
) -> None:
    (claimed,) = await claim(sandboxes, 1)
    kept = {sandbox.id for sandbox in await sandboxes.alive()}
    await eventually(lambda: ready(sandboxes))
    await eventually(lambda: renamed(broker, claimed))
    broker.kill()
    broker.start()
    assert {sandbox.id for sandbox in await sandboxes.alive()} == kept
    assert {name.partition(".")[0] for name in containers(broker)} == {f"gym-{id}" for id in kept}
    assert (await claimed.exec("echo here")).stdout.text == "here\n"


async def test_ready_ones_never_keep_an_instance_from_what_it_was_granted(
    broker: BrokerProcess, sandboxes: Sandboxes
) -> None:
    made = await claim(sandboxes, 1)
    await eventually(lambda: ready(sandboxes))
    while len(await sandboxes.alive()) < GRANT.max_sandboxes:
        made.append(await sandboxes.create({**SPEC, "labels": {"number": str(len(made))}}))
    alive = {f"gym-{sandbox.id}" for sandbox in await sandboxes.alive()}

    async def only_those() -> bool:
        return {name.partition(".")[0] for name in containers(broker)} == alive

    await eventually(only_those)
    with pytest.raises(RolloutError, match="as many as its grant allows"):
        await sandboxes.create(SPEC, timeout=0.5)


async def claim(sandboxes: Sandboxes, count: int) -> list[Sandbox]:
    """So many from the pool, which two requests filled."""
    await asyncio.gather(*(sandboxes.create(SPEC) for _ in range(2)))
    claimed = []
    for _ in range(count):
        await eventually(lambda: ready(sandboxes))
        claimed.append(await sandboxes.create(SPEC, rollout="1-1"))
    await eventually(lambda: ready(sandboxes))
    assert sum(pool["hits"] for pool in (await sandboxes.status())["warm"]) == count
    return claimed


async def ready(sandboxes: Sandboxes) -> int:
    return sum(pool["ready"] for pool in (await sandboxes.status())["warm"])


async def renamed(broker: BrokerProcess, sandbox: Sandbox) -> bool:
    return any(name.startswith(f"gym-{sandbox.id}.") for name in containers(broker))


def containers(broker: BrokerProcess) -> list[str]:
    argv = ["docker", "ps", "-a", "--filter", f"label=gym.stack={broker.stack}", "--format", "{{.Names}}"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def one_container(broker: BrokerProcess, sandbox: Sandbox) -> dict[str, Any]:
    """By its id: it may be given another name at any moment."""
    argv = ["docker", "ps", "-a", "--filter", f"label=gym.stack={broker.stack}", "--format", "{{.Names}} {{.ID}}"]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    (id,) = (line.split()[1] for line in lines if line.split()[0].partition(".")[0] == f"gym-{sandbox.id}")
    argv = ["docker", "inspect", id]
    (found,) = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
    return dict(found)
