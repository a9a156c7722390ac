"""Replicas by the names that DNS has for them."""

from __future__ import annotations

import socket
import threading
from collections import Counter

import pytest

from gym.console import engine_dns
from gym.console.engine_dns import ContainerAddress, ContainerNames
from gym.http import names as name_lookups
from gym.render.wanted_stack import wanted_of
from gym.wire.stack_names import shared_port
from gym.wire.wanted import Wanted, WantedRouter, WantedService
from tests.support.compose_plans import shared_plan

SERVICE = WantedService(
    name="mcqa",
    slug="mcqa",
    host="mcqa",
    type="resources_servers",
    implementation="mcqa",
    launch="sdk",
    replicas=2,
)
WANTED = Wanted(
    stack="s",
    project="p",
    url="http://r:1",
    router=WantedRouter(host="0.0.0.0", port=1),
    services=(SERVICE,),
    aliased=True,
)


async def test_where_addresses_are_called_after_tasks_each_replica_is_asked_for_by_its_own_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"mcqa": {"10.0.1.2", "10.0.1.3"}, "p-mcqa-1": {"10.0.1.2"}, "p-mcqa-2": {"10.0.1.3"}}
    silent = False

    def addresses(host: str) -> set[str]:
        if silent:
            raise socket.gaierror(socket.EAI_AGAIN, "no name server answers")
        return names.get(host, set())

    monkeypatch.setattr(name_lookups, "_addresses", addresses)
    monkeypatch.setattr(name_lookups, "_name", lambda _: f"p_mcqa-1.1.task.{WANTED.network}")
    found = ContainerNames()
    both = (ContainerAddress("p-mcqa-1", "10.0.1.2"), ContainerAddress("p-mcqa-2", "10.0.1.3"))
    assert await found.find(WANTED) == {"mcqa": both}
    names |= {"mcqa": {"10.0.1.2", "10.0.1.9"}, "p-mcqa-2": {"10.0.1.9"}}  # it moved
    moved = (both[0], ContainerAddress("p-mcqa-2", "10.0.1.9"))
    assert await found.find(WANTED) == {"mcqa": moved}
    silent = True
    assert await found.find(WANTED) == {"mcqa": moved}


async def test_a_name_of_which_nothing_is_heard_is_asked_for_once_and_costs_no_other_replica(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"mcqa": {"10.0.1.2", "10.0.1.3"}, "p-mcqa-1": {"10.0.1.2"}, "p-mcqa-2": {"10.0.1.3"}}
    heard, asked = threading.Event(), Counter[str]()
    silent: set[str] = set()

    def addresses(host: str) -> set[str]:
        asked[host] += 1
        if host in silent:
            heard.wait()
        return names.get(host, set())

    monkeypatch.setattr(name_lookups, "_addresses", addresses)
    monkeypatch.setattr(engine_dns, "LOOKUP_SECONDS", 0.02)
    found = ContainerNames()
    both = (ContainerAddress("p-mcqa-1", "10.0.1.2"), ContainerAddress("p-mcqa-2", "10.0.1.3"))
    assert await found.find(WANTED) == {"mcqa": both}
    silent.add("p-mcqa-2")
    names |= {"mcqa": {"10.0.1.3", "10.0.1.9"}, "p-mcqa-1": {"10.0.1.9"}}  # one of them moved
    moved = (ContainerAddress("p-mcqa-1", "10.0.1.9"), both[1])
    assert await found.find(WANTED) == {"mcqa": moved}
    names |= {"mcqa": {"10.0.1.3", "10.0.1.8"}, "p-mcqa-1": {"10.0.1.8"}}
    moved = (ContainerAddress("p-mcqa-1", "10.0.1.8"), both[1])
    assert await found.find(WANTED) == {"mcqa": moved}
    assert asked["p-mcqa-2"] == 2  # the second question is still open
    heard.set()
    names["p-mcqa-2"] = {"10.0.1.3"}
    assert await found.find(WANTED) == {"mcqa": moved}


async def test_a_container_that_instances_share_is_asked_for_once_and_has_a_port_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    names = {"simple-agent-shared": {"10.0.1.7"}, "mcqa-simple-agent": {"10.0.1.8"}}

    by_address = {"10.0.1.7": "p-simple-agent-shared-1", "10.0.1.8": "p-mcqa-simple-agent-1"}

    def addresses(host: str) -> set[str]:
        asked.append(host)
        return names.get(host, set())

    monkeypatch.setattr(name_lookups, "_addresses", addresses)
    monkeypatch.setattr(name_lookups, "_name", by_address.__getitem__)
    wanted = wanted_of(shared_plan(mcqa_simple_agent=2), "p", "http://r:1")
    found = await ContainerNames().find(wanted)
    shared = {
        name: ContainerAddress("p-simple-agent-shared-1", "10.0.1.7", shared_port(name))
        for name in ("mcqa_simple_agent", "weather_simple_agent")
    }
    assert found["weather_simple_agent"] == (shared["weather_simple_agent"],)
    own = ContainerAddress("p-mcqa-simple-agent-1", "10.0.1.8")
    assert found["mcqa_simple_agent"] == (shared["mcqa_simple_agent"], own)
    assert sorted(asked) == ["mcqa", "mcqa-simple-agent", "policy-model", "simple-agent-shared", "weather"]
