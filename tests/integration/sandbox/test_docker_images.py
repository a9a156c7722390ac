"""Images that are not there, not given, or do not build: one paragraph, the right blame, and nothing left behind."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from gym.broker.provider import Tags
from gym.broker.providers.docker import garbage, image_store
from gym.broker.providers.docker.errors import ImageBuildFailed, ImageDenied, ImageMissing, NetworkDown, RateLimited
from gym.broker.providers.docker.image_build import build_tag
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build, SandboxSpec
from tests.support.sandbox_docker import IMAGE, DockerHarness, docker_harness, say

pytestmark = pytest.mark.docker


@pytest.fixture
async def harness() -> AsyncIterator[DockerHarness]:
    async with docker_harness() as one:
        yield one


class Registry(NamedTuple):
    port: int
    asked: list[str]  # "METHOD path authorization"


@asynccontextmanager
async def registry(status: int, words: str, headers: str = "") -> AsyncIterator[Registry]:
    """Answers everything alike: what an engine meets at a registry that says no."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if (first := await reader.readexactly(1)) == b"\x16":
                return  # an engine tries TLS first
            head = (first + await reader.readuntil(b"\r\n\r\n")).decode()
            fields = [line.partition(": ")[2] for line in head.splitlines() if line.lower().startswith("authorization")]
            asked.append(f"{head.splitlines()[0]} {''.join(fields)}")
            code = {"code": words, "message": words.lower().replace("_", " ")}
            body = json.dumps({"errors": [code]}).encode()
            lines = (
                f"HTTP/1.1 {status} No\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}"
            )
            writer.write(lines.encode() + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield Registry(server.sockets[0].getsockname()[1], asked)


@pytest.mark.parametrize(
    ("status", "words", "headers", "expected"),
    [
        (404, "MANIFEST_UNKNOWN", "", ImageMissing),
        (401, "UNAUTHORIZED", 'WWW-Authenticate: Basic realm="here"\r\n', ImageDenied),
        (403, "DENIED", "", ImageDenied),
        (429, "TOOMANYREQUESTS", "", RateLimited),
    ],
)
async def test_a_registry_that_says_no_is_understood(
    harness: DockerHarness, status: int, words: str, headers: str, expected: type[Exception]
) -> None:
    async with registry(status, words, headers) as one:
        with pytest.raises(expected) as error:
            await harness.docker.prepare(SandboxSpec(image=f"127.0.0.1:{one.port}/org/thing:1"))
        assert f"127.0.0.1:{one.port}/org/thing:1" in str(error.value)
        assert one.asked
    if isinstance(error.value, RolloutError):
        assert (error.value.kind, error.value.retryable) == ("sandbox", False)


async def test_a_registry_that_is_not_there_is_the_networks_fault(harness: DockerHarness) -> None:
    with pytest.raises(NetworkDown, match="cannot be reached"):
        await harness.docker.prepare(SandboxSpec(image="127.0.0.1:9/org/thing:1"))


async def test_the_registry_hears_who_we_are(
    harness: DockerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = base64.b64encode(b"me:word").decode()
    async with registry(401, "UNAUTHORIZED", 'WWW-Authenticate: Basic realm="here"\r\n') as one:
        config = {"auths": {f"127.0.0.1:{one.port}": {"auth": secret}}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        with pytest.raises(ImageDenied):
            await harness.docker.prepare(SandboxSpec(image=f"127.0.0.1:{one.port}/org/thing:1"))
        assert any(line.endswith(f"Basic {secret}") for line in one.asked)


async def test_an_image_that_is_here_asks_no_registry_and_is_found_by_all_of_its_names(harness: DockerHarness) -> None:
    ids = {await harness.docker.prepare(SandboxSpec(image=name)) for name in (IMAGE, f"docker.io/library/{IMAGE}")}
    assert len(ids) == 1


async def test_a_build_is_made_once_however_often_it_is_asked_for(harness: DockerHarness) -> None:
    build = Build(
        dockerfile=f"FROM {IMAGE}\nARG WORD\nCOPY run.sh /run.sh\nRUN echo $WORD {harness.stack} > /built\n",
        files={"run.sh": b"#!/bin/sh\necho ran\n"},
        args={"WORD": "word"},
        network=False,
    )
    lines: list[str] = []
    try:
        ids = await asyncio.gather(*(harness.docker.make_image(build, lines.append) for _ in range(4)))
        assert len(set(ids)) == 1
        assert sum("Successfully tagged" in line for line in lines) == 1
        spec = SandboxSpec(build=build)
        sandbox = await harness.docker.create(spec, harness.tags())
        assert (await say(sandbox, "cat /built; /run.sh")).splitlines() == [f"word {harness.stack}", "ran"]
        await sandbox.remove()
    finally:
        assert await harness.docker.images.remove(build_tag(build))


async def test_a_step_that_fails_is_shown_with_its_last_lines(harness: DockerHarness) -> None:
    lines = f"FROM {IMAGE}\nRUN echo about-to-fail-{harness.stack} && python3 -c 'import nothing_of_the_kind'\n"
    with pytest.raises(ImageBuildFailed) as error:
        await harness.docker.make_image(Build(dockerfile=lines, network=False))
    assert "No module named 'nothing_of_the_kind'" in str(error.value)
    assert f"about-to-fail-{harness.stack}" in str(error.value)
    assert (error.value.kind, error.value.retryable) == ("sandbox", False)


async def test_a_build_without_network_has_none(harness: DockerHarness) -> None:
    probe = "import os; print('interfaces', sorted(os.listdir('/sys/class/net')), flush=True); raise SystemExit(1)"
    with pytest.raises(ImageBuildFailed, match=r"interfaces \['lo'\]"):
        await harness.docker.make_image(Build(dockerfile=f'FROM {IMAGE}\nRUN python3 -c "{probe}"\n', network=False))


async def test_a_build_that_does_not_end_is_ended(harness: DockerHarness) -> None:
    lines = f"FROM {IMAGE}\nRUN echo begun-{harness.stack} && sleep 600\n"
    with pytest.raises(ImageBuildFailed, match="longer than its 3 s"):
        await harness.docker.make_image(Build(dockerfile=lines, network=False, timeout=3))
    await harness.docker.ping()  # it answers: an engine that was held up would not


@pytest.mark.parametrize(
    ("dockerfile", "words"),
    [("FORM scratch", "unknown instruction"), ("", "empty"), (f"FROM {IMAGE}\nCOPY missing /x", "missing")],
)
async def test_a_dockerfile_that_is_none_is_the_tasks_fault(
    harness: DockerHarness, dockerfile: str, words: str
) -> None:
    with pytest.raises(ImageBuildFailed, match=words):
        await harness.docker.make_image(Build(dockerfile=dockerfile, network=False))


async def test_a_dockerfile_of_the_new_kind_builds_too(harness: DockerHarness) -> None:
    build = Build(
        dockerfile=f"FROM {IMAGE}\nRUN <<EOF\necho one-{harness.stack} > /one\necho two > /two\nEOF\n", network=False
    )
    try:
        sandbox = await harness.docker.create(SandboxSpec(build=build), harness.tags())
        assert await say(sandbox, "cat /one /two") == f"one-{harness.stack}\ntwo"
        await sandbox.remove()
    finally:
        await harness.docker.images.remove(build_tag(build))


async def test_a_full_disk_is_an_error_of_the_engine_and_says_so(harness: DockerHarness) -> None:
    lines = f"FROM {IMAGE}\nRUN echo {harness.stack}; python3 -c \"open('/dev/full', 'w', 1).write('x\\n')\"\n"
    with pytest.raises(Exception, match=r"disk is full|No space left"):
        await harness.docker.make_image(Build(dockerfile=lines, network=False))


async def test_garbage_is_ours_unused_and_oldest_first(harness: DockerHarness) -> None:
    builds = [
        Build(dockerfile=f"FROM scratch\nCOPY x /x\nLABEL n={harness.stack}-{n}\n", files={"x": b"1"}) for n in range(3)
    ]
    ids = [await harness.docker.make_image(one) for one in builds]
    image_use = harness.docker.images._image_use
    image_use._used |= {ids[0]: 300.0, ids[1]: 100.0, ids[2]: 200.0}
    used = await harness.docker.create(SandboxSpec(build=builds[2]), harness.tags())
    image_use._used[ids[2]] = 50.0
    try:
        found = [one["Id"] for one in await garbage.removable(harness.docker.engine, image_use)]
        assert [one for one in found if one in ids] == [ids[1], ids[0]]
        plain = (await harness.docker.images.prepare(SandboxSpec(image=IMAGE))).id
        assert plain not in found
        assert await harness.docker.collect_garbage(0.98, 0.99) == 0
    finally:
        await used.remove()
        for one in builds:
            await harness.docker.images.remove(build_tag(one))


def test_the_key_of_a_build_is_what_went_in() -> None:
    first = Build(dockerfile="FROM scratch", files={"a": b"1", "b": b"2"})
    assert build_tag(first) == build_tag(Build(dockerfile="FROM scratch", files={"b": b"2", "a": b"1"}, timeout=5))
    others = (
        Build(dockerfile="FROM scratch", files={"a": b"12", "b": b""}),
        Build(dockerfile="FROM scratch", files={"a": b"1", "b": b"2"}, network=False),
        Build(dockerfile="FROM scratch", files={"a": b"1", "b": b"2"}, args={"x": "y"}),
    )
    assert len({build_tag(one) for one in (first, *others)}) == 4
    assert image_store.fork_name(Tags("f1", "My Stack!", "i", "o")) == "gym-fork/my-stack:f1"
