"""Where rollouts go: straight to reachable replicas, through the router otherwise, past those that ail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from gym.collect.targets import Targets
from gym.errors import InfraError, UserError
from gym.http.pool import HttpClient
from tests.support.agents import FakeAgent, fake_agent


@pytest.fixture(scope="module")
def agent() -> Iterator[FakeAgent]:
    with fake_agent(names=("math", "code")) as one:
        yield one


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.aclose()


async def connected(http: HttpClient, url: str, token: str = "") -> Targets:
    targets = Targets(http, url, token)
    await targets.connect()
    return targets


def picked(targets: Targets, agent: str = "agent") -> str:
    replica = targets.pick(agent)
    assert replica is not None
    return replica.url


async def test_a_replica_on_this_machine_is_called_directly(agent: FakeAgent, http: HttpClient) -> None:
    targets = await connected(http, agent.url)
    assert sorted(targets.agents) == ["code", "math"]
    replica = targets.pick("math")
    assert replica is not None
    assert (replica.url, replica.headers) == (agent.url, ())


async def test_replicas_that_cannot_be_reached_are_left_to_the_router(http: HttpClient) -> None:
    with fake_agent(replicas=["http://math-1.invalid:8000", "http://127.0.0.1:1"], names=["a b"]) as agent:
        targets = await connected(http, agent.url)
        assert picked(targets, "a b") == f"{agent.url}/s/a%20b"


async def test_behind_the_router_each_replica_has_its_own_route_and_the_router_chooses_when_none_takes_it(
    http: HttpClient,
) -> None:
    with fake_agent(replicas=["http://math-1.invalid:8000", "http://math-2.invalid:8000"], routes=True) as agent:
        targets = await connected(http, agent.url)
        tried = [targets.pick("agent"), targets.pick("agent")]
        assert tried[0] is not None
        tried[0].in_flight = 1
        tried[1] = targets.pick("agent")
        there = [one for one in tried if one is not None]
        assert sorted(one.url for one in there) == [f"{agent.url}/s/~agent-1", f"{agent.url}/s/~agent-2"]
        last = targets.pick("agent", there)
        assert last is not None
        assert (last.url, last.id) == (f"{agent.url}/s/agent", "")
        assert targets.pick("agent", [*there, last]) is None
        there[0].vanished, there[1].in_flight = True, 9
        assert targets.pick("agent") is there[1]
        assert await targets.probe(["agent"]) == ""


@pytest.mark.parametrize("url", ["agent-1:8000", "http://", "http://[", "http://agent-1.invalid:port"])
async def test_an_address_that_is_none_is_left_to_the_router(http: HttpClient, url: str) -> None:
    with fake_agent(replicas=[url]) as agent:
        assert picked(await connected(http, agent.url)) == f"{agent.url}/s/agent"


async def test_an_instance_that_left_the_stack_is_asked_for_at_the_router(http: HttpClient) -> None:
    with fake_agent(names=["agent", "other"]) as agent:
        targets = await connected(http, agent.url)
        fresh = asyncio.create_task(targets.keep_fresh())
        agent.control(names=["other"])
        gone = targets.pick("agent")
        assert gone is not None
        targets.avoid(gone)
        async with asyncio.timeout(120):
            while picked(targets) != f"{agent.url}/s/agent":
                await asyncio.sleep(0.01)
        fresh.cancel()


async def test_the_one_with_the_fewest_rollouts_is_next_and_one_that_ails_is_last(http: HttpClient) -> None:
    urls = ["http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"]
    with fake_agent(replicas=urls) as agent:
        targets = await connected(http, agent.url)
        one = targets.pick("agent")
        assert one is not None
        one.in_flight = 1
        two = targets.pick("agent")
        assert two is not None
        assert two is not one
        targets.avoid(two)
        assert picked(targets) not in (one.url, two.url)
        assert targets.pick("agent", [one, two]) not in (one, two, None)
        assert targets.pick("missing") is None


async def test_a_change_of_the_stack_is_seen_after_a_failure(http: HttpClient) -> None:
    with fake_agent(replicas=["http://127.0.0.1:1"]) as agent:
        targets = await connected(http, agent.url)
        fresh = asyncio.create_task(targets.keep_fresh())
        agent.control(replicas=["http://127.0.0.1:2"])
        first = targets.pick("agent")
        assert first is not None
        targets.avoid(first)
        async with asyncio.timeout(120):
            while picked(targets) != "http://127.0.0.1:2":
                await asyncio.sleep(0.01)
        fresh.cancel()


async def test_a_probe_names_the_server_that_ails(agent: FakeAgent, http: HttpClient) -> None:
    targets = await connected(http, agent.url)
    assert await targets.probe(["math", "not in the stack"]) == ""
    agent.control(broken={"healthz": True})
    assert await targets.probe(["math"]) == "math answers 503 to /healthz"
    agent.control(broken={})


async def test_a_dead_server_is_reported_by_a_probe(http: HttpClient) -> None:
    with fake_agent(replicas=["http://127.0.0.1:1"]) as agent:
        targets = await connected(http, agent.url)
        assert (await targets.probe(["agent"])).startswith("agent does not answer: no connection to 127.0.0.1:1")


async def test_a_token_goes_to_the_router_alone(http: HttpClient) -> None:
    with fake_agent(token="hush") as agent:
        with pytest.raises(UserError, match="asks for a token"):
            await connected(http, agent.url)
        targets = await connected(http, agent.url, "hush")
        replica = targets.pick("agent")
        assert replica is not None
        assert replica.headers == ()


async def test_an_address_without_a_stack_is_reported_with_the_next_command(agent: FakeAgent, http: HttpClient) -> None:
    with pytest.raises(InfraError, match="no stack answers at http://127.0.0.1:1: no connection"):
        await connected(http, "http://127.0.0.1:1")
    with pytest.raises(UserError, match="not an http"):
        await connected(http, "localhost:11000")
    with pytest.raises(InfraError, match="/s/discovery answered 404"):
        await connected(http, agent.url + "/s/x/s")
    with pytest.raises(UserError, match="no agent 'maths'"):
        (await connected(http, agent.url)).check_agent("maths")


async def test_a_stack_without_an_agent_is_reported(http: HttpClient) -> None:
    with fake_agent(names=()) as agent, pytest.raises(UserError, match="has no agent"):
        await connected(http, agent.url)
