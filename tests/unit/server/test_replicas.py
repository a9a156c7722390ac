"""Which replica a rollout gets, and what becomes of it when that replica goes away."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.http.pool import HttpClient
from gym.server import ResourcesServer, Route, Server, tool
from gym.server.asgi import Answer, Call
from gym.server.replicas import Peers
from gym.server.rollout_client import RolloutClient
from gym.server.testing import running
from gym.wire.discovery import Discovery, InstanceView, ReplicaView
from gym.wire.failures import RolloutError
from gym.wire.rows import Row


class Tally(ResourcesServer[list[str]]):
    async def seed(self, row: Row) -> list[str]:
        return []

    @tool
    async def note(self, word: str, state: list[str]) -> list[str]:
        state.append(word)
        return state


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


def write(path: Path, *replicas: ReplicaView) -> None:
    view = InstanceView(type="resources_servers", implementation="tally", replicas=replicas)
    text = Discovery(stack="t", instances={"tally": view}).model_dump_json()
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(path)


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def make_rollout(http: HttpClient, peers: Peers, seconds: float = 10.0) -> RolloutClient:
    return RolloutClient(http, peers, seconds=seconds, id="r", resources_server="tally")


async def test_rollouts_spread_over_the_healthy_replicas(tmp_path: Path, http: HttpClient) -> None:
    document = tmp_path / "discovery.json"
    write(
        document,
        ReplicaView(id="tally-1", url="http://a:1"),
        ReplicaView(id="tally-2", url="http://b:1"),
        ReplicaView(id="tally-3", url="http://c:1", healthy=False),
    )
    peers = Peers(str(document), {}, http)
    picked = []
    for _ in range(4):
        replica = await peers.pick("tally", "resources")
        replica.bound += 1
        picked.append(replica.url)
    assert sorted(picked) == ["http://a:1", "http://a:1", "http://b:1", "http://b:1"]


async def test_a_session_stays_on_the_replica_that_opened_it(tmp_path: Path, http: HttpClient) -> None:
    document = tmp_path / "discovery.json"
    async with running(Tally.app({}, name="tally")) as one, running(Tally.app({}, name="tally")) as two:
        write(document, ReplicaView(id="tally-1", url=one), ReplicaView(id="tally-2", url=two))
        peers = Peers(str(document), {}, http)
        async with make_rollout(http, peers) as first, make_rollout(http, peers) as second:
            row = b'{"responses_create_params": {}}'
            await first.seed(row)
            await second.seed(row)
            for word in (b'{"word": "a"}', b'{"word": "b"}'):
                outputs = [await rollout.call_tool("note", word) for rollout in (first, second)]
            assert [orjson.loads(text) for _, text in outputs] == [["a", "b"], ["a", "b"]]


async def test_a_refused_connection_is_tried_elsewhere(tmp_path: Path, http: HttpClient) -> None:
    document = tmp_path / "discovery.json"
    async with running(Tally.app({}, name="tally")) as alive:
        write(
            document,
            ReplicaView(id="tally-1", url=f"http://127.0.0.1:{closed_port()}"),
            ReplicaView(id="tally-2", url=alive),
        )
        async with make_rollout(http, Peers(str(document), {}, http)) as rollout:
            await rollout.seed(b'{"responses_create_params": {}}')
            status, _ = await rollout.call_tool("note", b'{"word": "a"}')
    assert status == 200


async def test_a_session_whose_replica_is_gone_is_lost_and_retryable(tmp_path: Path, http: HttpClient) -> None:
    document = tmp_path / "discovery.json"
    async with running(Tally.app({}, name="tally")) as stays:
        async with running(Tally.app({}, name="tally")) as goes:
            write(document, ReplicaView(id="tally-1", url=goes))
            rollout = make_rollout(http, Peers(str(document), {}, http))
            await rollout.seed(b'{"responses_create_params": {}}')
        write(document, ReplicaView(id="tally-2", url=stays))
        await http.aclose()
        with pytest.raises(RolloutError) as lost:
            await rollout.call_tool("note", b'{"word": "a"}')
    assert lost.value.kind == "lost_session"
    assert lost.value.retryable


async def test_a_session_that_the_server_forgot_is_lost_and_no_output_for_the_model(http: HttpClient) -> None:
    async with running(Tally.app({}, name="tally")) as url:
        peers = Peers("", {"tally": url}, http)
        cookies = {"Tally___tally": "long gone"}
        rollout = RolloutClient(http, peers, seconds=5, cookies=cookies, resources_server="tally")
        with pytest.raises(RolloutError, match="not here") as lost:
            await rollout.call_tool("note", b'{"word": "a"}')
    assert lost.value.kind == "lost_session"


async def test_a_request_that_was_sent_is_never_repeated(http: HttpClient) -> None:
    asked = []

    class Breaks(Server):
        def routes(self) -> list[Route]:
            return [Route("/v1/responses", self.breaks)]

        async def breaks(self, call: Call) -> Answer:
            asked.append(call.body)
            return Answer(b"broken", 500)

    async with running(Breaks.app({}, name="m")) as url:
        rollout = RolloutClient(http, Peers("", {"m": url}, http), seconds=5, model_server="m")
        with pytest.raises(RolloutError) as failed:
            await rollout.ask_model({"input": "x"})
    assert (failed.value.kind, failed.value.retryable, len(asked)) == ("model", True, 1)


async def test_no_listener_is_a_failure_within_the_deadline(http: HttpClient) -> None:
    peers = Peers("", {"tally": f"http://127.0.0.1:{closed_port()}"}, http)
    with pytest.raises(RolloutError) as failed:
        await make_rollout(http, peers, seconds=0.4).seed(b"{}")
    assert failed.value.kind in ("resources", "timeout")
    assert failed.value.retryable


async def test_an_unknown_instance_names_itself(http: HttpClient) -> None:
    with pytest.raises(RolloutError, match="no running 'tally'"):
        await make_rollout(http, Peers("", {}, http)).seed(b"{}")


class Listing(Server):
    """The discovery document, over HTTP."""

    def routes(self) -> list[Route]:
        return [Route("/discovery", self.tell, method="GET")]

    async def tell(self, _: Call) -> Answer:
        replicas = tuple(
            ReplicaView(id=f"tally-{at}", url=url) for at, url in enumerate(self.settings.document["urls"])
        )
        view = InstanceView(type="resources_servers", implementation="tally", replicas=replicas)
        return Answer(Discovery(stack="t", instances={"tally": view}).model_dump_json().encode())


async def test_the_document_may_live_behind_a_url(http: HttpClient) -> None:
    async with running(Listing.app({}, name="console", document={"urls": ["http://there:1"]})) as url:
        peers = Peers(f"{url}/discovery", {"tally": "http://nowhere:1"}, http)
        assert (await peers.pick("tally", "resources")).url == "http://there:1"


async def test_calls_that_begin_at_once_go_to_one_replica(http: HttpClient) -> None:
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(running(Tally.app({}, name="tally"))) for _ in range(2)]
        listing = Listing.app({}, name="console", document={"urls": [one, two]})
        url = await stack.enter_async_context(running(listing))
        peers = Peers(f"{url}/discovery", {"tally": one}, http)
        async with make_rollout(http, peers) as rollout, asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(rollout.send("tally", "/close_session", b"", kind="resources", hop="tools"))
        assert [replica.bound for replica in await peers.replicas("tally")] == [0, 0]


class SlowListing(Listing):
    """Answers once it is let."""

    async def tell(self, call: Call) -> Answer:
        asked: list[asyncio.Event] = self.settings.document["asked"]
        asked.append(asyncio.Event())
        await asked[-1].wait()
        return await super().tell(call)


async def until(*conditions: Callable[[], Any]) -> None:
    while not all(condition() for condition in conditions):
        await asyncio.sleep(0.01)


async def test_first_calls_that_begin_at_once_all_see_the_replicas(http: HttpClient) -> None:
    asked: list[asyncio.Event] = []
    document = {"urls": ["http://there:1"], "asked": asked}
    async with running(SlowListing.app({}, name="console", document=document)) as url:
        peers = Peers(f"{url}/discovery", {}, http)
        first, *others = [asyncio.create_task(peers.pick("tally", "resources")) for _ in range(3)]
        await until(lambda: asked)
        first.cancel()  # its rollout was given up: the others' question is not
        await until(first.done, lambda: len(asked) == 2 or others[0].done())
        asked[-1].set()
        assert [one.url for one in await asyncio.gather(*others)] == ["http://there:1"] * 2
        asked[0].set()
        refused = asyncio.create_task(peers.refused("tally", await others[0]))
        await until(lambda: len(asked) == 3)
        assert (await peers.pick("tally", "resources")).url == "http://there:1"  # it need not wait: this is known
        asked[-1].set()
        assert await refused


async def test_a_broken_document_leaves_what_is_known(tmp_path: Path, http: HttpClient) -> None:
    document = tmp_path / "discovery.json"
    document.write_text("{half a docu")
    peers = Peers(str(document), {"tally": "http://known:1"}, http)
    assert (await peers.pick("tally", "resources")).url == "http://known:1"
