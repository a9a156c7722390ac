"""Replicas by the names that DNS has for them."""

from __future__ import annotations

import pytest

from gym.console import engine_dns
from gym.console.engine_dns import ContainerAddress, ContainerNames
from gym.wire.wanted import Wanted, WantedRouter, WantedService

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

    async def addresses(host: str) -> frozenset[str] | None:
        return None if silent else frozenset(names.get(host, ()))

    async def name(address: str, network: str) -> str:
        return f"p_mcqa-1.1.task.{network}"

    monkeypatch.setattr(engine_dns, "_addresses", addresses)
    monkeypatch.setattr(engine_dns, "_name", name)
    found = ContainerNames()
    both = (ContainerAddress("p-mcqa-1", "10.0.1.2"), ContainerAddress("p-mcqa-2", "10.0.1.3"))
    assert await found.find(WANTED) == {"mcqa": both}
    names |= {"mcqa": {"10.0.1.2", "10.0.1.9"}, "p-mcqa-2": {"10.0.1.9"}}  # it moved
    moved = (both[0], ContainerAddress("p-mcqa-2", "10.0.1.9"))
    assert await found.find(WANTED) == {"mcqa": moved}
    silent = True
    assert await found.find(WANTED) == {"mcqa": moved}
