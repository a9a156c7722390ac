"""Which of many replicas is asked, without a look at each of them."""

from __future__ import annotations

import random

import pytest

from gym.collect.agent_replicas import AgentReplica
from gym.http.pool import HttpClient
from gym.http.replica_choice import COMPARED, MANY, avoid, choose_replica


@pytest.fixture
def http() -> HttpClient:
    random.seed(7)
    return HttpClient()


def replicas(count: int) -> list[AgentReplica]:
    return [AgentReplica(f"http://agent-{number}:8000") for number in range(count)]


async def test_of_a_few_it_is_the_least_busy_one(http: HttpClient) -> None:
    few = replicas(MANY)
    for number, one in enumerate(few):
        one.in_flight = (number - 40) ** 2
    assert choose_replica(few, http) is few[40]


async def test_of_many_the_only_good_one_is_found(http: HttpClient) -> None:
    many = replicas(20 * MANY)
    for one in many:
        one.healthy = False
    many[700].healthy = True
    many[700].in_flight = 1000
    assert all(choose_replica(many, http) is many[700] for _ in range(20))
    avoid(many[700])
    assert choose_replica(many, http) is many[700]


async def test_of_many_those_with_a_flaw_are_not_taken(http: HttpClient) -> None:
    many = replicas(20 * MANY)
    for one in many[::2]:
        one.vanished = True
        one.in_flight = -1
    assert not any(choose_replica(many, http).vanished for _ in range(200))


async def test_many_get_nearly_as_much_each_as_if_all_were_compared(http: HttpClient) -> None:
    many = replicas(500)
    for _ in range(500 * 20):
        choose_replica(many, http).in_flight += 1
    loads = [one.in_flight for one in many]
    assert max(loads) - min(loads) <= 8
    assert max(loads) <= 22


async def test_few_of_many_are_looked_at(http: HttpClient) -> None:
    asked: list[str] = []

    class Watched(HttpClient):
        def is_lost(self, url: str) -> bool:
            asked.append(url)
            return False

    choose_replica(replicas(10_000), Watched())
    assert len(asked) <= COMPARED + 1
