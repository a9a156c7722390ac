"""Programs that mean harm on the Docker provider: each is bounded, reported as what it is, and felt by no neighbour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from gym.broker.provider import Channel, EgressSettings, Tags
from gym.broker.providers.docker.docker_sandbox import DockerSandbox
from gym.broker.providers.docker.engine_events import look_once
from gym.broker.providers.docker.image_build import build_tag
from gym.broker.providers.docker.network import bridge_name
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build, ExecRequest, Network, SandboxSpec
from tests.support.sandbox_docker import IMAGE, DockerHarness, docker_harness, run, say

pytestmark = pytest.mark.docker
SMALL = {"memory": "128m", "pids": 48, "cpus": 0.5, "disk": "16m"}


@pytest.fixture
async def harness() -> AsyncIterator[DockerHarness]:
    async with docker_harness() as one:
        yield one


async def neighbours(harness: DockerHarness) -> tuple[DockerSandbox, DockerSandbox]:
    return await harness.make(limits=SMALL), await harness.make(limits=SMALL)


async def test_a_fork_bomb_stays_in_its_limit_and_is_ended_by_its_timeout(harness: DockerHarness) -> None:
    bad, good = await neighbours(harness)
    bomb = asyncio.create_task(run(bad, "bomb() { bomb | bomb & }; (bomb) & while :; do :; done", timeout=4))
    assert await say(good, "echo fine", timeout=120) == "fine"
    assert (await bomb).timed_out
    assert await say(bad, "echo fine", timeout=120) == "fine"


async def test_a_memory_hog_is_ended_for_memory_and_the_sandbox_lives(harness: DockerHarness) -> None:
    bad, good = await neighbours(harness)
    result = await run(bad, "python3 -c 'x = bytearray(1 << 30); print(len(x))'", timeout=240)
    assert result.exit_code != 0
    assert result.oom
    assert await say(good, "echo fine") == "fine"
    assert await say(bad, "echo fine") == "fine"


async def test_a_hog_of_memory_files_is_ended_for_memory(harness: DockerHarness) -> None:
    bad = await harness.make(limits=SMALL, mounts={"/memory": "1g"})
    result = await run(bad, "head -c 600000000 /dev/zero > /memory/x", timeout=240)
    assert result.exit_code != 0
    assert await say(bad, "rm -f /memory/x; echo fine", timeout=240) == "fine"


async def test_ten_thousand_files_and_one_that_never_ends_are_bounded_by_the_disk_limit(harness: DockerHarness) -> None:
    bad, good = await neighbours(harness)
    endless = await run(bad, "yes > /endless; ls -l /endless | awk '{print $5}'", timeout=240)
    assert int(endless.stdout.text) <= 16 << 20
    with suppress(RolloutError):  # where the disk fills up by others' doing, the watch looks before we do
        await run(bad, "for i in $(seq 40); do head -c 1000000 /dev/zero > /part-$i; done", timeout=240)
    await look_once((bad, good), short=False)
    await bad.channel.wait_closed()
    assert "`limits.disk` is 16777216" in await bad.why_lost()
    assert await say(good, "echo fine") == "fine"


async def test_files_on_a_volume_of_the_image_count_in_the_disk_limit(harness: DockerHarness) -> None:
    build = Build(dockerfile=f"FROM {IMAGE}\nVOLUME /data\n", network=False)
    spec = SandboxSpec.model_validate({"build": build, "limits": SMALL})
    bad, good = [await harness.docker.create(spec, harness.tags()) for _ in range(2)]
    try:
        await say(good, "head -c 1000000 /dev/zero > /data/part")
        with suppress(RolloutError):  # the watch may look before we do
            await say(bad, "for i in $(seq 20); do head -c 1000000 /dev/zero > /data/part-$i; done", timeout=240)
        await look_once((bad, good), short=False)
        await bad.channel.wait_closed()
        assert "`limits.disk` is 16777216" in await bad.why_lost()
        assert await say(good, "ls /data") == "part"
    finally:
        await asyncio.gather(bad.remove(), good.remove())
        await harness.docker.images.remove(build_tag(build))


async def test_where_the_disk_runs_full_the_largest_goes_and_no_other(harness: DockerHarness) -> None:
    big, small = [await harness.make() for _ in range(2)]
    await say(big, "head -c 100000000 /dev/zero > /big", timeout=240)
    await say(small, "head -c 1000 /dev/zero > /small")
    await look_once((small, big), short=True)
    await big.channel.wait_closed()
    assert "disk ran full" in await big.why_lost()
    assert await say(small, "echo fine") == "fine"


async def test_the_watch_finds_a_file_bomb_by_itself(harness: DockerHarness) -> None:
    bad = await harness.make(limits={"disk": "96m"})
    line = "for i in 1 2 3; do head -c 64000000 /dev/zero > /part-$i; done; sync; sleep 300"
    job = await bad.channel.start(ExecRequest(shell=line, timeout=400))
    async with asyncio.timeout(240):
        await bad.channel.wait_closed()
    assert "`limits.disk`" in await bad.why_lost()
    assert not job.running


async def test_a_sandbox_that_was_kept_busy_is_removed_at_once(harness: DockerHarness) -> None:
    bad = await harness.make(limits=SMALL)
    started = [
        await bad.channel.start(ExecRequest(shell="trap '' TERM INT HUP; while :; do :; done")) for _ in range(4)
    ]
    assert all(job.running for job in started)
    await bad.remove()
    assert await harness.containers() == []


class OneGate:
    """An egress gate that opens nothing: what a sandbox sees is what it gives."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, tuple[str, ...]]] = []

    def attach(self, tags: Tags, network: Network) -> EgressSettings:
        self.calls.append(("attach", tags.id, network.allow))
        return EgressSettings(("HTTPS_PROXY=http://proxy:3128",), ("127.0.0.9",))

    async def open(self, tags: Tags, channel: Channel) -> None:
        assert not channel.closed
        self.calls.append(("open", tags.id, ()))

    async def seal(self, tags: Tags, network: Network) -> None:
        self.calls.append(("seal", tags.id, network.allow))

    async def detach(self, tags: Tags) -> None:
        self.calls.append(("detach", tags.id, ()))


async def test_an_egress_gate_hears_of_a_sandbox_of_its_phases_and_its_end() -> None:
    gate = OneGate()
    async with docker_harness(gate) as one:
        network = {"allow": ["run.example.org"], "setup": {"allow": ["setup.example.org"]}}
        sandbox = await one.docker.create(SandboxSpec.model_validate({"image": IMAGE, "network": network}), one.tags())
        seen = "echo $HTTPS_PROXY; ls /sys/class/net; grep ^name /etc/resolv.conf"
        assert await say(sandbox, seen) == "http://proxy:3128\nlo\nnameserver 127.0.0.9"
        await sandbox.seal()
        await sandbox.seal()
        await sandbox.remove()
        name = sandbox.tags.id
        assert gate.calls == [
            ("attach", name, ("setup.example.org",)),
            ("open", name, ()),
            ("seal", name, ("run.example.org",)),
            ("detach", name, ()),
        ]
        assert bridge_name(one.stack, 0) not in [
            found["Name"] for found in await one.docker.engine.call("GET", "/networks", doing="list networks")
        ]
