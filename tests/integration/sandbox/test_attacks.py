"""Against a real engine: images that pose as a stack, users that stop each other, files without end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym.sandbox.client import Sandboxes
from gym.sandbox.docker.build import build_image
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build, ExecRequest, Grant
from tests.support.sandbox_broker import TOKEN, broker_process
from tests.support.sandbox_docker import IMAGE, Lab, lab, run, say

pytestmark = pytest.mark.docker
POSES = (
    "gym.stack=another",
    "gym.stack-dir=/home/somebody/.gym/gym",
    "gym.type=sandbox",
    "gym.owner=somebody",
    "com.docker.compose.project=another",
    "com.docker.compose.service=sandbox",
)


@pytest.fixture
async def labs() -> AsyncIterator[Lab]:
    async with lab() as one:
        yield one


async def test_an_image_cannot_make_its_sandbox_look_like_a_part_of_a_stack(labs: Lab) -> None:
    text = f"FROM {IMAGE}\n" + "".join(f"LABEL {pose}\n" for pose in POSES)  # past the policy, as a registry's image is
    tag = await build_image(labs.docker.engine, Build(dockerfile=text), lambda _: None)
    try:
        await labs.make(tag)
        (found,) = await labs.containers()
        posed = dict(pose.split("=") for pose in POSES)
        kept = {name: found["Labels"][name] for name in posed}
        assert kept == {**dict.fromkeys(posed, ""), "gym.stack": labs.stack}
    finally:
        for container in await labs.containers():
            path = f"/containers/{container['Id']}"
            await labs.docker.engine.call("DELETE", path, {"force": True}, doing="remove a test's sandbox")
        await labs.docker.images.remove(tag)


async def test_who_stops_the_helper_of_a_user_stops_it_for_a_while_only(labs: Lab) -> None:
    box = await labs.make()
    line = await box.channel_as("nobody")
    stopping = ExecRequest(argv=("sh", "-c", "kill -STOP -1"), timeout=1)
    with pytest.raises(RolloutError, match="stopped answering"):
        await line.exec(stopping)
    ends = time.monotonic() + 40
    while (line := await box.channel_as("nobody")).unheard > 5:
        assert time.monotonic() < ends
        await asyncio.sleep(0.2)
    assert (await run(line, "id -un")).stdout.text == "nobody\n"
    assert await say(box, "id -un") == "root"


async def test_one_that_stops_everything_it_can_stops_only_itself(labs: Lab) -> None:
    box = await labs.make()
    first = asyncio.create_task(run(box, "sleep 30", timeout=4))
    stopped = await run(box, "kill -STOP $PPID; kill -STOP -1; echo unseen; kill -STOP $$", timeout=2)
    assert stopped.timed_out
    assert await say(box, "echo alive") == "alive"
    assert (await first).timed_out


async def test_a_file_without_end_and_one_of_holes_are_not_taken_whole(tmp_path: Path) -> None:
    grant = Grant(images=(IMAGE,), warm=0)
    with broker_process(tmp_path, "docker", grant=grant) as broker:
        async with Sandboxes(broker.url, TOKEN) as sandboxes, await sandboxes.create({"image": IMAGE}) as box:
            made = await box.exec("mkdir /w && ln -s /dev/zero /w/answer && truncate -s 10G /w/holes")
            assert made.ok
            for work in (
                box.get_to("/w/answer", tmp_path / "answer", most=1 << 20),
                box.get_tree("/w", tmp_path / "tree", most=1 << 20),
            ):
                with pytest.raises(RolloutError, match="larger than what was to be taken"):
                    await work
            assert (tmp_path / "answer").stat().st_size <= 1 << 20
            assert len(await box.get("/w/answer", length=1000)) == 1000
            assert not (tmp_path / "tree").exists()
