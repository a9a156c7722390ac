"""The engine's side of the wire, spoken by a small server: refusals, streams in any pieces, pipes, and silence."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.broker.providers.docker.engine_client import EngineClient, EngineRefused, EngineSilent
from gym.broker.providers.docker.errors import (
    BadSpec,
    DiskFull,
    ImageDenied,
    ImageMissing,
    NetworkDown,
    RateLimited,
    explain_create,
    explain_pull,
)
from gym.broker.providers.docker.hijack import Attached
from gym.broker.providers.docker.image_name import parse_reference
from gym.broker.providers.docker.image_store import ImageUse
from gym.broker.providers.docker.registry_auth import all_auths, registry_auth
from gym.errors import InfraError, UserError
from tests.support.sandbox_docker import VERSION, engine_that, reply


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("e")  # a socket's path is short


async def test_a_version_is_agreed_on_and_words_of_a_refusal_are_the_engines_own(folder: Path) -> None:
    asked: list[str] = []

    async def serve(line: str, writer: asyncio.StreamWriter) -> None:
        asked.append(line)
        reply(writer, 409, {"message": "it is busy"})

    async with engine_that(serve, folder, VERSION | {"ApiVersion": "1.99"}) as engine:
        await engine.open()
        with pytest.raises(EngineRefused, match="refused to make tea \\(409\\): it is busy") as error:
            await engine.call("POST", "/tea", {"a": "b c", "none": None, "yes": True}, json={}, doing="make tea")
        assert (error.value.status, error.value.words) == (409, "it is busy")
    assert asked == ["POST /v1.45/tea?a=b+c&yes=1 HTTP/1.1"]


async def test_an_engine_that_is_too_old_is_refused_with_the_next_step(folder: Path) -> None:
    async def serve(line: str, writer: asyncio.StreamWriter) -> None: ...

    async with engine_that(serve, folder, {"ApiVersion": "1.40"}) as engine:
        with pytest.raises(InfraError, match="Upgrade"):
            await engine.open()


async def test_a_question_is_asked_again_where_the_engine_hung_up_and_a_command_is_not(folder: Path) -> None:
    asked: list[str] = []

    async def serve(line: str, writer: asyncio.StreamWriter) -> None:
        asked.append(line.split()[0])
        if len(asked) == 2:
            reply(writer, 200, {"fine": True})
        else:
            writer.close()

    async with engine_that(serve, folder) as engine:
        assert await engine.call("GET", "/x", doing="x") == {"fine": True}
        with pytest.raises(EngineSilent):
            await engine.call("POST", "/x", doing="x")
    assert asked == ["GET", "GET", "POST"]


async def test_silence_is_reported_in_time(folder: Path) -> None:
    async def serve(line: str, writer: asyncio.StreamWriter) -> None: ...

    async with engine_that(serve, folder) as engine:
        with pytest.raises(EngineSilent, match="Start it"):
            await engine.call("GET", "/x", doing="answer", timeout=0.05)


async def test_lines_come_whole_in_whatever_pieces_they_were_sent(folder: Path) -> None:
    values = [{"n": number, "text": "ü" * number} for number in range(20)]
    body = "\n".join(json.dumps(value, ensure_ascii=False) for value in values).encode()

    async def serve(line: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 7):
            part = body[at : at + 7]
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async with engine_that(serve, folder) as engine:
        assert [line async for line in engine.lines("GET", "/events", doing="tell")] == values


async def test_a_stream_that_breaks_off_is_not_an_end(folder: Path) -> None:
    async def serve(line: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
        await writer.drain()
        writer.close()

    async with engine_that(serve, folder) as engine:
        with pytest.raises(EngineSilent, match="hung up"):
            [line async for line in engine.lines("GET", "/events", doing="tell")]


async def test_a_refused_attachment_says_why(folder: Path) -> None:
    async def serve(line: str, writer: asyncio.StreamWriter) -> None:
        reply(writer, 404, {"message": "No such container"})

    async with engine_that(serve, folder) as engine:
        with pytest.raises(EngineRefused, match="No such container"):
            await engine.attach("/containers/x/attach", doing="attach")


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=12), st.integers(1, 9))
def test_pipes_are_taken_apart_in_whatever_pieces_they_come(parts: list[tuple[int, bytes]], size: int) -> None:
    async def read() -> tuple[bytes, str]:
        attached = Attached(asyncio.get_running_loop())
        sent = b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n"
        sent += b"".join(struct.pack(">BxxxL", stream, len(data)) + data for stream, data in parts)
        for at in range(0, len(sent), size):
            attached.data_received(sent[at : at + size])
        attached.reader.feed_eof()
        return await attached.reader.read(), attached.words

    found, words = asyncio.run(read())
    assert found == b"".join(data for stream, data in parts if stream == 1)
    assert words == b"".join(data for stream, data in parts if stream == 2).decode("utf-8", "replace").strip()


@pytest.mark.parametrize("host", ["ssh://far", "tcp://10.0.0.1:2375", "npipe:////./pipe/docker_engine", "unix:/x"])
def test_an_engine_elsewhere_is_refused_with_what_to_set(host: str) -> None:
    with pytest.raises(UserError, match="DOCKER_HOST"):
        EngineClient(host)


def test_an_engine_on_loopback_is_one_of_this_machine() -> None:
    async def make() -> None:
        engine = EngineClient("tcp://127.0.0.1:1")
        with pytest.raises(EngineSilent):
            await engine.open()
        await engine.aclose()

    asyncio.run(make())


# What engines and registries said, word for word; who caused it.
SAID = [
    ("manifest for nothing:1 not found: manifest unknown: manifest unknown", ImageMissing),
    ("manifest unknown", ImageMissing),
    ("no matching manifest for linux/arm64/v8 in the manifest list entries", ImageMissing),
    ("pull access denied for thing, repository does not exist or may require 'docker login'", ImageDenied),
    ('Head "https://ghcr.io/v2/o/n/manifests/1": unauthorized', ImageDenied),
    ("toomanyrequests: You have reached your pull rate limit. https://www.docker.com/increase-rate-limit", RateLimited),
    ('Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host', NetworkDown),
    ('Get "https://r/v2/": net/http: request canceled (Client.Timeout exceeded while awaiting headers)', NetworkDown),
    ("failed to register layer: write /usr/lib/x: no space left on device", DiskFull),
]


@pytest.mark.parametrize(("words", "expected"), SAID)
def test_an_error_of_a_registry_has_a_cause(words: str, expected: type[Exception]) -> None:
    error = explain_pull("thing:1", words)
    assert type(error) is expected
    assert "thing:1" in str(error) or expected is DiskFull


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("unable to find user agent: no matching entries in passwd file", BadSpec),
        ("unable to find group x: no matching entries in group file", BadSpec),
        ("exec /.gym/helper: exec format error", BadSpec),
        ("Minimum memory limit allowed is 6MB", BadSpec),
        ("all predefined address pools have been fully subnetted", InfraError),
        ("mkdir /var/lib/docker/overlay2/x: no space left on device", DiskFull),
        ("something never heard of", EngineRefused),
    ],
)
def test_an_error_of_a_creation_has_a_cause(words: str, expected: type[Exception]) -> None:
    assert type(explain_create(EngineRefused(500, words, "start"), "thing:1")) is expected


def test_logins_are_found_where_docker_keeps_them(tmp_path: Path) -> None:
    secret = base64.b64encode(b"me:pass:word").decode()
    helper = {"auths": {"https://index.docker.io/v1/": {"auth": secret}, "ghcr.io": {"identitytoken": "t"}}}
    (tmp_path / "config.json").write_text(json.dumps(helper))

    def found(image: str) -> object:
        header = registry_auth(parse_reference(image), tmp_path)
        return header and json.loads(base64.urlsafe_b64decode(header))

    assert found("python") == {"username": "me", "password": "pass:word"}
    assert found("ghcr.io/o/n") == {"identitytoken": "t"}
    assert found("quay.io/o/n") is None
    assert sorted(json.loads(base64.urlsafe_b64decode(all_auths(tmp_path) or ""))) == [
        "ghcr.io",
        "https://index.docker.io/v1/",
    ]
    (tmp_path / "config.json").write_text("{")
    assert registry_auth(parse_reference("python"), tmp_path) is None


def test_the_ledger_outlives_its_broker_and_a_torn_one_is_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "images.json"
    first = ImageUse(path)
    first.use("sha256:a", pulled=True)
    assert (ImageUse(path).pulled, ImageUse(path).last_used("sha256:a") > 0) == ({"sha256:a"}, True)
    path.write_text("{")
    assert ImageUse(path).pulled == set()
    ImageUse(Path("/proc/nowhere/x")).use("sha256:b", pulled=True)
