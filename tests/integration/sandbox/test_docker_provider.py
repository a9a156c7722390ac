"""The Docker provider on a real engine: what a sandbox is, what it leaves behind, and who finds it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from gym.broker.providers.docker.docker_provider import Docker
from gym.broker.providers.docker.docker_sandbox import DockerSandbox
from gym.broker.providers.docker.engine_events import look_once
from gym.broker.providers.docker.errors import BadSpec
from gym.broker.providers.docker.image_build import build_tag
from gym.errors import InfraError
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build, ExecRequest, SandboxSpec
from tests.support.docker import need_engine
from tests.support.sandbox_docker import IMAGE, DockerHarness, docker_harness, run, say

pytestmark = pytest.mark.docker


@pytest.fixture
async def harness() -> AsyncIterator[DockerHarness]:
    async with docker_harness() as one:
        yield one


async def adopted(docker: Docker, stack: str) -> list[DockerSandbox]:
    found: list[Any] = [adopt async for _, adopt in docker.found(stack)]
    return [await adopt() for adopt in found]


async def test_a_sandbox_has_what_its_request_says_and_nothing_of_the_host(harness: DockerHarness) -> None:
    sandbox = await harness.make(
        env={"TASK": "näh"}, workdir="/work/here", limits={"cpus": 0.5, "memory": "256m", "pids": 64}, user="nobody"
    )
    assert await say(sandbox, "pwd; id -un; echo $TASK; echo $OMP_NUM_THREADS") == "/work/here\nnobody\nnäh\n1"
    reply = await harness.docker.engine.call("GET", f"/containers/{sandbox.container}/json", doing="look")
    host = reply["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (500_000_000, 256 << 20, 256 << 20)
    assert (host["PidsLimit"], host["NetworkMode"], host["CapDrop"]) == (64, "none", ["ALL"])
    assert "SECRET_OF_THE_HOST" not in await say(sandbox, "env")


async def test_an_image_without_anything_in_it_still_makes_a_sandbox(harness: DockerHarness) -> None:
    build = Build(dockerfile=f"FROM scratch\nCOPY note /note\nLABEL of={harness.stack}\n", files={"note": b"hello"})
    spec = SandboxSpec(build=build, read_only=True, user="1234")
    sandbox = await harness.docker.create(spec, harness.tags())
    assert await sandbox.channel.read_file("/note") == b"hello"
    await sandbox.channel.write_file("/tmp/x", b"y")
    with pytest.raises(RolloutError, match="Read-only"):
        await sandbox.channel.write_file("/x", b"y")
    await sandbox.remove()
    assert await harness.docker.images.remove(build_tag(build))


async def test_mounts_are_memory_of_their_size(harness: DockerHarness) -> None:
    sandbox = await harness.make(mounts={"/scratch": "1m"})
    result = await run(sandbox, "head -c 3000000 /dev/zero > /scratch/x")
    assert "No space left" in result.stderr.text
    assert "noexec" not in await say(sandbox, "grep ' /scratch ' /proc/mounts")


async def test_another_user_has_a_channel_of_their_own(harness: DockerHarness) -> None:
    sandbox = await harness.make()
    other = await sandbox.channel_as("nobody")
    assert await say(other, "id -un") == "nobody"
    assert await sandbox.channel_as("nobody") is other
    with pytest.raises(BadSpec, match="no user nobody-knows"):
        await sandbox.channel_as("nobody-knows")
    assert await say(sandbox, "id -un") == "root"


async def test_a_fork_has_the_files_and_neither_sees_the_other_afterwards(harness: DockerHarness) -> None:
    parent = await harness.make(mounts={"/memory": "8m"}, env={"A": "b"})
    await say(
        parent,
        "mkdir -p /d/e; echo one > /d/e/f; chmod 640 /d/e/f; ln -s f /d/e/l; echo two > /memory/m; rm /etc/issue",
    )
    child = await parent.fork(harness.tags("fork"))
    assert await say(child, "cat /d/e/l /memory/m; stat -c %a /d/e/f; echo $A") == "one\ntwo\n640\nb"
    assert (await run(child, "ls /etc/issue")).exit_code == 2
    await say(child, "echo changed > /d/e/f")
    await say(parent, "echo later > /d/late")
    assert await say(parent, "cat /d/e/f") == "one"
    assert (await run(child, "ls /d/late")).exit_code == 2
    assert child.tags.parent == parent.tags.id


async def test_the_image_of_a_fork_goes_with_it_and_forks_of_forks_hold(harness: DockerHarness) -> None:
    parent = await harness.make()
    await say(parent, "echo 1 > /generation")
    child = await parent.fork(harness.tags("child"))
    await say(child, "echo 2 > /generation")
    grandchild = await child.fork(harness.tags("grandchild"))
    await child.remove()
    await parent.remove()
    assert await say(grandchild, "cat /generation") == "2"
    await grandchild.remove()
    assert await harness.images() == []


async def test_removing_twice_at_once_is_removing_once(harness: DockerHarness) -> None:
    sandbox = await harness.make()
    await asyncio.gather(sandbox.remove(), sandbox.remove())
    await sandbox.remove()
    assert await harness.containers() == []
    assert sandbox.channel.closed


async def test_a_caller_that_gives_up_in_the_middle_leaves_nothing(harness: DockerHarness) -> None:
    for turns in (1, 5, 20, 60):
        task = asyncio.create_task(harness.make())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await harness.containers() == []


async def test_another_broker_finds_what_this_one_left_with_its_latest_tags(harness: DockerHarness) -> None:
    sandbox = await harness.make(env={"KEY": "value"}, limits={"memory": "300m"})
    await sandbox.retag(sandbox.tags._replace(rollout="r/9 ü" * 100, owner="other", expires=4e9, warm=""))
    job = await sandbox.channel.start(ExecRequest(shell="read line; echo got $line", timeout=60, id="job-1"))
    assert job.running
    first, harness.docker = harness.docker, Docker(need_engine())
    await first.close()
    await harness.docker.open()
    (again,) = await adopted(harness.docker, harness.stack)
    assert again.tags == sandbox.tags
    assert (again.spec.env, again.spec.limits.memory) == ({"KEY": "value"}, 300 << 20)
    assert [process.name for process in again.channel.adopted] == ["job-1"]
    assert await say(again, "echo $KEY") == "value"
    await again.remove()
    assert await harness.containers() == []


async def test_a_sandbox_that_was_paused_by_hand_goes_on_when_it_is_adopted(harness: DockerHarness) -> None:
    sandbox = await harness.make()
    await harness.docker.engine.call("POST", f"/containers/{sandbox.container}/pause", doing="pause it by hand")
    first, harness.docker = harness.docker, Docker(need_engine())
    await first.close()
    await harness.docker.open()
    (again,) = await adopted(harness.docker, harness.stack)
    assert [one["State"] for one in await harness.containers()] == ["running"]
    assert await say(again, "echo on") == "on"


async def test_a_sweep_takes_all_of_a_stack_but_what_is_kept_and_nothing_of_others(harness: DockerHarness) -> None:
    async with docker_harness() as others:
        theirs = await others.make()
        kept, doomed = await harness.make(), await harness.make()
        created = {"name": f"gym-{(tags := harness.tags()).id}"}
        body = {"Image": IMAGE, "Labels": {"gym.stack": harness.stack, "gym.sandbox": tags.id}}
        await harness.docker.engine.call("POST", "/containers/create", created, json=body, doing="leave one behind")
        assert await harness.docker.sweep(harness.stack, frozenset({kept.tags.id})) == 2
        assert [one["Id"] for one in await harness.containers()] == [kept.container]
        assert doomed.channel.closed
        assert await say(theirs, "echo here") == "here"
        assert await say(kept, "echo here") == "here"


async def test_why_a_sandbox_was_lost_is_reported(harness: DockerHarness) -> None:
    sandbox = await harness.make()
    await harness.docker.engine.call("POST", f"/containers/{sandbox.container}/kill", doing="kill")
    await sandbox.channel.wait_closed()
    assert "137" in await sandbox.why_lost()
    with pytest.raises(RolloutError) as lost:
        await run(sandbox, "true")
    assert (lost.value.kind, lost.value.retryable) == ("sandbox", True)
    await sandbox.remove()


async def test_files_past_the_disk_limit_end_the_sandbox_and_say_why(harness: DockerHarness) -> None:
    hog = await harness.make(limits={"disk": "8m"})
    neighbour = await harness.make(limits={"disk": "8m"})
    assert (await run(hog, "head -c 9000000 /dev/zero > /one")).exit_code != 0
    with suppress(RolloutError):  # where the disk fills up by others' doing, the watch looks before we do
        await say(hog, "for i in 1 2 3 4; do head -c 4000000 /dev/zero > /$i; done")
    await look_once((hog, neighbour), short=False)
    await hog.channel.wait_closed()
    assert "`limits.disk` is 8388608" in await hog.why_lost()
    assert await say(neighbour, "echo fine") == "fine"


async def test_a_silent_broker_is_outlived_by_none_of_its_sandboxes(harness: DockerHarness) -> None:
    sandbox = await harness.make()
    assert await say(sandbox, "tr '\\0' ' ' < /proc/1/cmdline") == "/.gym/helper --guard --silence 30 --linger 30"
    reply = await harness.docker.engine.call("GET", f"/containers/{sandbox.container}/json", doing="look")
    assert reply["HostConfig"]["AutoRemove"] is True


async def test_the_internet_is_a_shared_bridge_that_sealing_takes_away(harness: DockerHarness) -> None:
    spec = SandboxSpec(image=IMAGE, network={"access": "none", "setup": "internet"})
    one, two = [await harness.docker.create(spec, harness.tags()) for _ in range(2)]
    interfaces = "ls /sys/class/net | tr '\\n' ' '"
    assert "eth0" in await say(one, interfaces)
    address = await say(two, "hostname -i")
    probe = f"import socket; s=socket.socket(); s.settimeout(2); print(s.connect_ex(('{address}', 9)))"
    assert await say(one, f'python3 -c "{probe}"') != "111", "refused by the neighbour itself: it was reached"
    await one.seal()
    assert (await say(one, interfaces)).split() == ["lo"]
    assert "eth0" in await say(two, interfaces)
    child = await one.fork(harness.tags("sealed"))
    assert (await say(child, interfaces)).split() == ["lo"]


async def test_hosts_without_an_egress_gate_are_refused_in_words(harness: DockerHarness) -> None:
    with pytest.raises(BadSpec, match="no egress gate"):
        await harness.make(network={"allow": ["docs.example.org"]})
    assert await harness.containers() == []


async def test_a_runtime_that_is_not_there_is_refused_in_words(harness: DockerHarness) -> None:
    with pytest.raises(BadSpec, match="no runtime kata"):
        await harness.make(runtime="kata")


async def test_an_engine_that_is_not_there_is_one_paragraph(tmp_path: Any) -> None:
    docker = Docker(f"unix://{tmp_path}/none.sock")
    with pytest.raises(InfraError, match="Start it") as error:
        await docker.open()
    assert "none.sock" in str(error.value)
    await docker.close()


async def test_sixteen_at_once_come_and_go(harness: DockerHarness) -> None:
    sandboxes = await asyncio.gather(*(harness.make() for _ in range(16)))
    said = await asyncio.gather(*(say(one, "hostname") for one in sandboxes))
    assert said == [one.tags.id for one in sandboxes]
    await asyncio.gather(*(one.remove() for one in sandboxes))
    assert await harness.containers() == []
