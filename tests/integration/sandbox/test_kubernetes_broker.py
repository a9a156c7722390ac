"""The broker as a process of its own, with pods for sandboxes: what servers ask of it, and what is left of it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from gym.sandbox.broker_client import Sandboxes
from gym.wire.failures import RolloutError
from gym.wire.sandbox import SandboxSpec
from tests.support.fake_kubernetes import FakeKubernetes, Fault, fake_kubernetes
from tests.support.sandbox_broker import TOKEN, BrokerProcess, until

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
IMAGE = "python:3.13-slim"
SPEC = SandboxSpec(image=IMAGE)


def start(folder: Path, fake: FakeKubernetes) -> BrokerProcess:
    options = {"server": fake.url, "account": str(fake.account), "helper_image": "gym-base:1"}
    broker = BrokerProcess(folder, "kubernetes", options=options)
    broker.start()
    return broker


async def test_servers_get_pods_for_sandboxes_and_none_is_left(tmp_path: Path) -> None:
    async with fake_kubernetes(tmp_path) as fake:
        broker = start(tmp_path, fake)
        try:
            async with Sandboxes(broker.url, TOKEN) as sandboxes:
                sandbox = await sandboxes.create(SPEC)
                (pod,) = fake.pods.values()
                assert pod["spec"]["containers"][0]["image"] == f"docker.io/library/{IMAGE}"
                assert (await sandbox.exec("echo $((6 * 7))")).stdout.text == "42\n"
                fake.faults.append(Fault("POST", 403, "Forbidden", "exceeded quota: pods"))
                another = await sandboxes.create(SPEC)  # asked again: there was no room for a moment
                await fake.vanish(pod["metadata"]["name"])
                with pytest.raises(RolloutError) as found:
                    await sandbox.exec("true")
                assert (found.value.kind, found.value.retryable) == ("sandbox", True)
                assert (await another.exec("true")).ok
            assert await asyncio.to_thread(broker.stop) == 0
            assert not fake.pods
        finally:
            await asyncio.to_thread(broker.close)


async def test_a_broker_that_was_killed_leaves_pods_that_the_next_one_removes(tmp_path: Path) -> None:
    async with fake_kubernetes(tmp_path) as fake:
        broker = start(tmp_path, fake)
        try:
            async with Sandboxes(broker.url, TOKEN) as sandboxes:
                await sandboxes.create(SPEC)
                await asyncio.to_thread(broker.kill)
                assert len(fake.pods) == 1
                broker.start()
                await until(lambda: not fake.pods)
        finally:
            await asyncio.to_thread(broker.close)
