"""What holds over time on the Docker provider: the whole suite, a broker that died, a bridge that went away."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym.broker.conformance import BEHAVIOURS, BehaviourResult, make_factory, run_suite
from gym.broker.helper import find_helper
from gym.broker.providers.docker.docker_provider import Docker
from gym.broker.providers.docker.network import bridge_name
from gym.broker.providers.docker.volume import HelperVolume
from gym.wire.sandbox import SandboxSpec
from tests.support.docker import need_engine
from tests.support.sandbox_docker import IMAGE, DockerHarness, docker_harness, say

pytestmark = pytest.mark.docker
ROOT = Path(__file__).parents[3]
BROKER = """
import asyncio
from gym.broker.providers.docker.docker_provider import Docker
from gym.broker.provider import Tags
from gym.wire.sandbox import ExecRequest, SandboxSpec

async def main():
    docker = Docker()
    await docker.open()
    for number in range(2):
        one = await docker.create(SandboxSpec(image="{image}"), Tags(f"orphan-{{number}}-{stack}", "{stack}", "i", "o"))
        await one.channel.start(ExecRequest(shell="trap '' TERM HUP INT; while :; do sleep 1; done", timeout=600))
    print("made", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def harness() -> AsyncIterator[DockerHarness]:
    async with docker_harness() as one:
        yield one


async def test_every_behaviour_of_the_suite_is_shown(harness: DockerHarness) -> None:
    outcomes: tuple[BehaviourResult, ...] = await run_suite(
        make_factory(harness.docker, harness.stack),
        harness.docker.abilities,
        image=f"docker.io/library/{IMAGE}",
        flood=1_000_000_000,
    )
    assert [f"{one.name}: {one.why}" for one in outcomes if one.state == "failed"] == []
    assert len(outcomes) == len(BEHAVIOURS)
    assert sum(one.state == "passed" for one in outcomes) > 100


async def test_nothing_outlives_a_broker_that_was_killed(harness: DockerHarness) -> None:
    code = BROKER.format(image=IMAGE, stack=harness.stack)
    broker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, cwd=ROOT, env={**os.environ}
    )
    assert broker.stdout is not None
    try:
        assert (await broker.stdout.readline()).strip() == b"made"
    finally:
        broker.send_signal(signal.SIGKILL)
        await broker.communicate()
    assert len(await harness.containers()) == 2
    async with asyncio.timeout(240):
        while await harness.containers():
            await asyncio.sleep(0.5)


async def test_a_bridge_that_a_person_removed_is_made_again(harness: DockerHarness) -> None:
    spec = SandboxSpec.model_validate({"image": IMAGE, "network": "internet"})
    first = await harness.docker.create(spec, harness.tags())
    await first.remove()
    path = f"/networks/{bridge_name(harness.stack, 0)}"
    await harness.docker.engine.call("DELETE", path, doing="remove a network")
    again = await harness.docker.create(spec, harness.tags())
    assert "eth0" in await say(again, "ls /sys/class/net")


async def test_a_sealed_sandbox_is_adopted_sealed_and_an_open_one_open(harness: DockerHarness) -> None:
    spec = SandboxSpec.model_validate({"image": IMAGE, "network": {"access": "none", "setup": "internet"}})
    sealed, still_open = [await harness.docker.create(spec, harness.tags()) for _ in range(2)]
    await sealed.seal()
    first, harness.docker = harness.docker, Docker(need_engine())
    await first.close()
    await harness.docker.open()
    found = [await adopt() async for _, adopt in harness.docker.found(harness.stack)]  # type: ignore[misc]  # -> object
    assert {one.tags.id: one.sealed for one in found} == {sealed.tags.id: True, still_open.tags.id: False}
    for one in found:
        await one.seal()
        assert await say(one, "ls /sys/class/net") == "lo"
    assert await harness.docker.networks.sweep(harness.stack) == 1


async def test_the_volume_of_an_older_helper_goes_when_no_sandbox_holds_it(harness: DockerHarness) -> None:
    engine, name = harness.docker.engine, f"gym-helper-of-{harness.stack}"
    named = {"Name": name, "Labels": {"gym.sandbox": "helper"}}
    await engine.call("POST", "/volumes/create", json=named, doing="make an old volume")
    sandbox = await harness.make()
    await harness.docker.sweep(harness.stack, frozenset({sandbox.tags.id}))
    found = [one["Name"] for one in (await engine.call("GET", "/volumes", doing="list volumes"))["Volumes"]]
    assert name not in found
    assert await say(sandbox, "echo on") == "on"


async def test_a_helpers_volume_that_was_removed_meanwhile_is_filled_again(
    harness: DockerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gym prune --all` may take it from a broker that has no sandbox."""
    own, engine = tmp_path / "helper", harness.docker.engine
    own.write_bytes(find_helper(platform.machine()).read_bytes() + harness.stack.encode())
    volume = HelperVolume(engine, own)
    monkeypatch.setattr(harness.docker, "_volume", volume)
    for _ in range(2):
        sandbox = await harness.make()
        assert await say(sandbox, "echo on") == "on"
        await sandbox.remove()
        await engine.call("DELETE", f"/volumes/{volume.name}", doing="remove a volume")
