"""Where sandboxes are placed: shared bridges of a bounded number of ports, and whatever is taken is given back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from gym.broker.provider import Channel, EgressSettings, Tags
from gym.broker.providers.docker.engine_client import EngineRefused
from gym.broker.providers.docker.errors import BadSpec
from gym.broker.providers.docker.network import BRIDGE_PORTS, Networks, bridge_name
from gym.wire.sandbox import Network
from tests.support.sandbox_docker import engine_that, reply

INTERNET = Network(access="internet")
TAGS = Tags("sandbox", "stack", "inst", "owner")
LINE = cast(Channel, None)  # handed on to a gate, and not looked at


class Bridges:
    """An engine that knows networks alone."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.refuse = False

    async def serve(self, line: str, writer: asyncio.StreamWriter) -> None:
        method, path, _ = line.split()
        self.asked[f"{method} {path}"] += 1
        if self.refuse:
            reply(writer, 500, {"message": "all predefined address pools have been fully subnetted"})
        else:
            reply(writer, 200, {"Id": "x"})


@pytest.fixture
async def bridges(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Bridges, Networks]]:
    one, folder = Bridges(), Path(tmp_path_factory.mktemp("n"))
    async with engine_that(one.serve, folder) as engine:
        yield one, Networks(engine)


async def test_none_asks_the_engine_for_nothing(bridges: tuple[Bridges, Networks]) -> None:
    engine, networks = bridges
    assert (await networks.attach(TAGS, Network())).network == "none"
    assert not engine.asked


async def test_a_bridge_is_made_once_and_the_next_where_it_is_full(bridges: tuple[Bridges, Networks]) -> None:
    engine, networks = bridges
    places = await asyncio.gather(*(networks.attach(TAGS, INTERNET) for _ in range(BRIDGE_PORTS + 1)))
    used = Counter(place.network for place in places)
    assert used == {bridge_name("stack", 0): BRIDGE_PORTS, bridge_name("stack", 1): 1}
    assert engine.asked == {"POST /networks/create": 2}
    await networks.detach(TAGS, places[0])
    assert (await networks.attach(TAGS, INTERNET)).network == bridge_name("stack", 0)


async def test_a_port_is_given_back_where_the_bridge_could_not_be_made(bridges: tuple[Bridges, Networks]) -> None:
    engine, networks = bridges
    engine.refuse = True
    for _ in range(BRIDGE_PORTS + 5):
        with pytest.raises(EngineRefused):
            await networks.attach(TAGS, INTERNET)
    engine.refuse = False
    assert (await networks.attach(TAGS, INTERNET)).network == bridge_name("stack", 0)


async def test_sealing_gives_the_port_back_once(bridges: tuple[Bridges, Networks]) -> None:
    engine, networks = bridges
    run = Network(access="none", setup=INTERNET)
    first, second = [await networks.attach(TAGS, run) for _ in range(2)]
    sealed = await networks.seal("container", TAGS, first, run)
    await networks.detach(TAGS, sealed)
    assert engine.asked[f"POST /networks/{bridge_name('stack', 0)}/disconnect"] == 1
    again = await networks.adopt(TAGS, run, [bridge_name("stack", 0)], LINE)
    assert (again.shards, second.shards, sealed.shards) == (second.shards, second.shards, ())


async def test_a_gate_lets_go_where_the_bridge_beside_it_cannot_be_made(bridges: tuple[Bridges, Networks]) -> None:
    engine, plain = bridges
    calls: list[str] = []

    class Gate:
        def attach(self, tags: Tags, network: Network) -> EgressSettings:
            calls.append(f"attach {network.access} {network.allow}")
            return EgressSettings(("HTTP_PROXY=http://here",), ("127.9.9.9",))

        async def open(self, tags: Tags, channel: Channel) -> None:
            calls.append("open")

        async def seal(self, tags: Tags, network: Network) -> None:
            calls.append(f"seal {network.allow}")

        async def detach(self, tags: Tags) -> None:
            calls.append("detach")

    networks = Networks(plain._engine, Gate())
    wanted = Network(access="allow", allow=("a.org",), setup=INTERNET)
    engine.refuse = True
    with pytest.raises(EngineRefused):
        await networks.attach(TAGS, wanted)
    assert calls == ["attach internet ()", "detach"]
    engine.refuse = False
    place = await networks.attach(TAGS, wanted)
    assert (place.network, place.dns, place.gated) == (bridge_name("stack", 0), ("127.9.9.9",), True)
    await networks.open(TAGS, place, LINE)
    sealed = await networks.seal("container", TAGS, place, wanted)
    assert calls[-2:] == ["open", "seal ('a.org',)"]
    assert engine.asked[f"POST /networks/{bridge_name('stack', 0)}/disconnect"] == 1
    await networks.detach(TAGS, sealed)
    assert calls[-1] == "detach"
    asked = engine.asked.copy()
    alone = await networks.attach(TAGS, Network(access="allow", allow=("a.org",)))
    assert (alone.network, alone.shards) == ("none", ())
    assert engine.asked == asked  # through a gate no bridge is needed


async def test_without_a_gate_hosts_are_refused(bridges: tuple[Bridges, Networks]) -> None:
    _, networks = bridges
    assert networks.accesses == ("none", "internet")
    with pytest.raises(BadSpec, match="no egress gate"):
        await networks.attach(TAGS, Network(access="allow", allow=("a.org",)))
