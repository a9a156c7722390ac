"""Addresses of a provider: who keeps which, who is out, and what is said of them at run time."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gym.errors import UserError
from gym.files import write_atomically
from gym.server import endpoints
from gym.server.endpoints import check_url, what_to_check
from gym.server.upstream import CallContext, Upstream, caller
from gym.wire.failures import RolloutError
from gym.wire.upstream_file import FILE, Upstreams
from tests.support.fake_openai import fake_openai

ASK = {"model": "m", "input": "hi"}


@asynccontextmanager
async def upstream(urls: list[str], folder: Path | None = None, **options: Any) -> AsyncIterator[Upstream]:
    opened = Upstream(urls, live=str(folder or ""), **options)
    try:
        yield opened
    finally:
        await opened.aclose()


def say(folder: Path, version: int, *urls: str, **more: Any) -> None:
    upstreams = Upstreams(version=version, base_urls=urls, **more)
    write_atomically(folder / FILE, upstreams.model_dump_json())


def of(key: str) -> None:
    caller.set(CallContext(key))


class Door:
    """A port without a listener, until it is opened."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self.status = b"200 OK"
        self.served = 0
        self.asked = asyncio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._answer, sock=self._socket)
        try:
            yield
        finally:
            server.close()

    def close(self) -> None:
        self._socket.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.served += head.startswith(b"POST")
        self.asked.set()
        writer.write(b"HTTP/1.1 %b\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}" % self.status)
        writer.close()


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    yield made
    made.close()


async def test_a_rollout_that_had_to_move_stays_where_it_went(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first address is dead, and comes back: new rollouts use it, those that moved do not."""
    monkeypatch.setattr(endpoints, "PROBE_SECONDS", 0.01)
    async with fake_openai() as there, upstream([door.url, there.url]) as asked:
        keys = [f"rollout-{number}" for number in range(20)]
        for key in keys:
            of(key)
            await asked.post("/responses", ASK)
        assert asked.health()["upstream"]["unreachable"] == [door.url]
        assert len(there.asked) == 20
        async with door.opened():
            while "unreachable" in asked.health()["upstream"]:
                await asyncio.sleep(0.01)
            for key in keys:
                of(key)
                await asked.post("/responses", ASK)
            assert (len(there.asked), door.served) == (40, 0)
            for number in range(20):
                of(f"new-{number}")
                await asked.post("/responses", ASK)
            assert len(there.asked) + door.served == 60
            assert 0 < door.served < 20


async def test_where_all_are_dead_each_is_tried_and_the_failure_is_the_models(door: Door) -> None:
    other = Door()
    async with upstream([door.url, other.url], attempts=1) as asked:
        with pytest.raises(RolloutError, match=r"cannot reach the model .* \(3 tries\)") as caught:
            await asked.post("/responses", ASK)
    other.close()
    assert (caught.value.kind, caught.value.retryable) == ("model", True)


async def test_what_is_said_at_run_time_holds_from_the_next_call_on_until_it_is_taken_back(tmp_path: Path) -> None:
    async with fake_openai() as first, fake_openai() as other:
        headers = {"authorization": "Bearer configured-key"}
        async with upstream([first.url], tmp_path, headers=headers, secrets=("configured-key",)) as asked:
            await asked.post("/responses", ASK)
            say(tmp_path, 1, other.url, api_key="late-key", model="step-3", headers={"x-a": "1"})
            await asked.post("/responses", ASK)
            assert (asked.model, asked.health()["upstream"]["version"]) == ("step-3", 1)
            say(tmp_path, 2, other.url)
            await asked.post("/responses", ASK)
            say(tmp_path, 3, f"{first.url.removesuffix('/v1')}/v2")
            with pytest.raises(RolloutError, match="/v2/nowhere"):
                await asked.post("/nowhere", ASK)
            (tmp_path / FILE).write_text("{half")
            with pytest.raises(RolloutError, match="/v2/nowhere"):
                await asked.post("/nowhere", ASK)
            (tmp_path / FILE).unlink()
            await asked.post("/responses", ASK)
            assert asked.model == ""
    keys = [[one.headers.get("authorization") for one in provider.asked] for provider in (first, other)]
    # Of the configured host the configured key, whatever its path; of another one only what was said with it.
    assert keys == [["Bearer configured-key"] * 4, ["Bearer late-key", None]]
    assert [one.headers.get("x-a") for one in other.asked] == ["1", None]


async def test_a_call_that_is_put_off_goes_on_with_what_was_said_meanwhile(door: Door, tmp_path: Path) -> None:
    door.status = b"503 Busy"
    async with door.opened(), fake_openai() as there, upstream([door.url], tmp_path) as asked:
        waiting = asyncio.create_task(asked.post("/responses", ASK))
        await door.asked.wait()
        say(tmp_path, 1, there.url)
        await waiting
        assert len(there.asked) == 1


async def test_keys_said_at_run_time_are_in_no_message(tmp_path: Path) -> None:
    async with fake_openai(api_key="another") as provider, upstream([], tmp_path) as asked:
        say(tmp_path, 1, provider.url, api_key="sk-late-secret")
        with pytest.raises(RolloutError) as caught:
            await asked.post("/responses", ASK)
        assert "sk-late-secret" not in caught.value.message + str(asked.health())
        assert "****" in caught.value.message


@pytest.mark.parametrize("url", ["x:8000", "ftp://x", "http://user:pw@x/v1", "http://x/v1?key=k", ""])
def test_addresses_are_http_and_hold_no_password(url: str) -> None:
    with pytest.raises(ValueError, match="base_urls"):
        Upstreams(base_urls=(url,))


def test_a_model_of_this_machine_that_containers_cannot_reach_is_reported_with_where_to_listen() -> None:
    assert "listen on 0.0.0.0" in what_to_check("http://host.docker.internal:8000/v1/responses")
    assert what_to_check("http://gpu-7:8000/v1") == "Is it running, is the base URL right?"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nourl", "'nourl'"),
        ("localhost:8000/v1", "'localhost:8000/v1'"),
        ("me:secret1@host/v1?key=secret1", "'host/v1'"),
    ],
)
def test_a_base_url_that_is_none_is_shown_as_it_was_written_without_what_is_secret(url: str, shown: str) -> None:
    with pytest.raises(UserError, match=rf"not an http\(s\) address: {re.escape(shown)}") as refused:
        check_url(url)
    assert "secret1" not in str(refused.value)
