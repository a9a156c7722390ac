"""Against a real engine: images that pose as a stack, users that stop each other, files without end."""

from __future__ import annotations

import asyncio
import errno
import io
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gym import labels
from gym.broker.providers.docker.garbage import is_ours
from gym.broker.providers.docker.image_build import build_image
from gym.cli.sandbox.leftovers import labelled_sandboxes
from gym.runtime.compose.containers import HASH, NUMBER, PROJECT, SERVICE, list_containers
from gym.runtime.compose.teardown import remove_stack
from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.sandbox_errors import FileProblem
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build, ExecRequest, Grant
from tests.support.docker import engine_client, eventually
from tests.support.sandbox_broker import TOKEN, broker_process
from tests.support.sandbox_docker import IMAGE, DockerHarness, docker_harness, run, say

pytestmark = pytest.mark.docker
POSES = (
    "gym.stack=another",
    "gym.stack-dir=/home/other/.gym/gym",
    "gym.type=sandbox",
    "gym.owner=other",
    "com.docker.compose.project=another",
    "com.docker.compose.service=sandbox",
)


@pytest.fixture
async def harness() -> AsyncIterator[DockerHarness]:
    async with docker_harness() as one:
        yield one


async def test_an_image_cannot_make_its_sandbox_look_like_a_part_of_a_stack(harness: DockerHarness) -> None:
    text = f"FROM {IMAGE}\n" + "".join(f"LABEL {pose}\n" for pose in POSES)  # past the policy, as a registry's image is
    tag = await build_image(harness.docker.engine, Build(dockerfile=text), lambda _: None)
    try:
        await harness.make(tag)
        (found,) = await harness.containers()
        posed = dict(pose.split("=") for pose in POSES)
        kept = {name: found["Labels"][name] for name in posed}
        assert kept == {**dict.fromkeys(posed, ""), "gym.stack": harness.stack}
    finally:
        for container in await harness.containers():
            path = f"/containers/{container['Id']}"
            await harness.docker.engine.call("DELETE", path, {"force": True}, doing="remove a test's sandbox")
        await harness.docker.images.remove(tag)


async def test_a_step_of_a_build_whose_image_poses_as_a_broker_is_not_taken_for_one(harness: DockerHarness) -> None:
    """A build's step carries every label of the image it begins from, and is a container that runs."""
    home, stack = f"/nowhere/{harness.stack}", harness.stack
    poses = {labels.STACK: stack, labels.STACK_DIR: home, labels.TYPE: "sandbox", labels.INSTANCE: "sandbox"}
    poses |= {labels.SANDBOX: "sb1", labels.SANDBOX_EXPIRES: "1", labels.SANDBOX_IMAGE: "fork"}
    poses |= {PROJECT: stack, SERVICE: "sandbox", NUMBER: "1", HASH: "aa"}
    text = f"FROM {IMAGE}\n" + "".join(f"LABEL {name}={value}\n" for name, value in poses.items())
    hostile = f"{stack}-hostile:1"
    with engine_client() as client:
        client.images.build(fileobj=io.BytesIO(text.encode()), tag=hostile, rm=True)
        step = Build(dockerfile=f"FROM {hostile}\nRUN sleep 600\n", network=False)
        building = asyncio.create_task(harness.docker.make_image(step))
        try:
            everything = await asyncio.to_thread(running_with, client, f"{labels.STACK_DIR}={home}")
            assert [one["Labels"][labels.TYPE] for one in everything] == ["sandbox"]
            for wanted in (
                f"{labels.STACK_DIR}={home}",
                f"{PROJECT}={stack}",
                f"{labels.STACK}={stack}",
                labels.SANDBOX,
            ):
                assert stack not in {one.labels[labels.STACK] for one in list_containers(client, wanted)}
            assert stack not in {one.stack for one in labelled_sandboxes(labels.SANDBOX)}
            assert not await asyncio.to_thread(remove_stack, client, home, stack, grace=0.0)
            assert [tags async for tags, _ in harness.docker.found(stack)] == []
            assert await harness.docker.sweep(stack, frozenset()) == 0
            assert not building.done()
            assert client.images.get(hostile).labels[labels.SANDBOX_IMAGE] == "fork"
        finally:
            building.cancel()
            await asyncio.gather(building, return_exceptions=True)
            eventually(
                lambda: client.api.containers(all=True, filters={"label": f"{PROJECT}={stack}"}), lambda one: not one
            )
            client.api.remove_image(hostile, force=True)


def running_with(client: Any, label: str) -> list[dict[str, Any]]:
    """By hand, past everything of ours."""
    listed: list[dict[str, Any]] = eventually(lambda: client.api.containers(filters={"label": label}), bool)
    return listed


async def test_a_container_that_a_person_made_from_a_fork_is_theirs(harness: DockerHarness) -> None:
    """Its image is one of ours, and says so of whatever is made from it."""
    sandbox = await harness.make()
    await sandbox.fork(harness.tags())
    (image,) = await harness.images()
    with engine_client() as client:
        theirs = client.api.create_container(image, ["sleep", "60"], name=f"gym-{harness.stack}")
        derived = f"{harness.stack}-theirs:1"
        client.images.build(fileobj=io.BytesIO(f"FROM {image}\nRUN true".encode()), tag=derived, rm=True)
        try:
            assert client.images.get(derived).labels[labels.SANDBOX_IMAGE] == "fork"
            listed = [one for one in client.api.images() if derived in (one["RepoTags"] or ())]
            assert [is_ours(one) for one in listed] == [False]
            await harness.docker.sweep(harness.stack, frozenset())
            assert client.api.inspect_container(theirs["Id"])["State"]["Status"] == "created"
        finally:
            client.api.remove_container(theirs["Id"], force=True)
            client.api.remove_image(derived, force=True)


async def test_who_stops_the_helper_of_a_user_stops_it_for_a_while_only(harness: DockerHarness) -> None:
    sandbox = await harness.make()
    channel = await sandbox.channel_as("nobody")
    stopping = ExecRequest(argv=("sh", "-c", "kill -STOP -1"), timeout=1)
    with pytest.raises(RolloutError, match="stopped answering"):
        await channel.exec(stopping)
    ends = time.monotonic() + 120
    while (channel := await sandbox.channel_as("nobody")).unheard > 5:
        assert time.monotonic() < ends
        await asyncio.sleep(0.2)
    assert (await run(channel, "id -un")).stdout.text == "nobody\n"
    assert await say(sandbox, "id -un") == "root"


async def test_one_that_stops_everything_it_can_stops_only_itself(harness: DockerHarness) -> None:
    sandbox = await harness.make()
    first = asyncio.create_task(run(sandbox, "sleep 30", timeout=4))
    stopped = await run(sandbox, "kill -STOP $PPID; kill -STOP -1; echo unseen; kill -STOP $$", timeout=2)
    assert stopped.timed_out
    assert await say(sandbox, "echo alive") == "alive"
    assert (await first).timed_out


async def test_a_file_without_end_and_one_of_holes_are_not_taken_whole(tmp_path: Path) -> None:
    grant = Grant(images=(IMAGE,), warm=0)
    with broker_process(tmp_path, "docker", grant=grant) as broker:
        async with Sandboxes(broker.url, TOKEN) as sandboxes, await sandboxes.create({"image": IMAGE}) as sandbox:
            made = await sandbox.exec("mkdir /w && ln -s /dev/zero /w/answer && truncate -s 10G /w/holes")
            assert made.ok
            for path, number in (("/w/answer", errno.EINVAL), ("/w/holes", errno.EFBIG)):
                with pytest.raises(FileProblem) as raised:
                    await sandbox.get(path)
                assert raised.value.errno == number
            with pytest.raises(FileProblem, match="larger than 1048576 bytes"):
                await sandbox.get_tar("/w", max_bytes=1 << 20)
            with pytest.raises(FileProblem, match="larger than what was to be taken"):
                await sandbox.get_tar_to("/w", tmp_path / "answer", max_bytes=1 << 20)
            assert (tmp_path / "answer").stat().st_size <= 1 << 20
            with pytest.raises(FileProblem):
                await sandbox.get("/w/answer", length=1000)  # no regular file: not even a part
            assert await sandbox.get("/w/holes", length=1000) == bytes(1000)
