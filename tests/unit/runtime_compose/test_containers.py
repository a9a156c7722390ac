"""The engine's list in our words: states, replicas, what is observed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gym.errors import InfraError, UserError
from gym.labels import BLOCKED
from gym.runtime.compose.choice import choose
from gym.runtime.compose.containers import (
    Container,
    Inspected,
    detail_of,
    observed,
    replica_id,
    state_of,
    status_of,
    statuses_of,
    timestamp,
)
from gym.runtime.compose.plan_names import read_names
from gym.runtime.compose.stack_status import with_missing
from gym.wire.stack_names import ROUTER, shared_port
from tests.support.compose_plans import plan_of, service, shared_plan

PLAN = plan_of(service("mcqa", replicas=2), service("policy_model", type="responses_api_models"))


def container(name: str = "mcqa", number: int = 1, **fields: Any) -> Container:
    slug = name.replace("_", "-")
    given: dict[str, Any] = {
        "id": f"{slug}{number}",
        "name": f"gym-demo-1-{slug}-{number}",
        "state": "running",
        "health": "healthy",
        "service": slug,
        "number": number,
        "labels": {"gym.instance": name, "gym.config-digest": f"digest-of-{name}", "gym.type": "resources_servers"},
    }
    return Container(**(given | fields))


@pytest.mark.parametrize(
    ("state", "health", "ours"),
    [
        ("running", "healthy", "healthy"),
        ("running", "starting", "starting"),
        ("running", "unhealthy", "unhealthy"),
        ("running", "", "healthy"),
        ("created", "", "starting"),
        ("restarting", "", "restarting"),
        ("removing", "", "stopping"),
        ("exited", "healthy", "exited"),
        ("dead", "", "exited"),
        ("paused", "", "unhealthy"),
    ],
)
def test_the_engines_words_become_ours(state: str, health: str, ours: str) -> None:
    assert state_of(container(state=state, health=health)) == ours


def test_a_container_without_a_health_check_is_as_healthy_as_it_answers() -> None:
    assert state_of(container(health=""), answers=False) == "starting"


def test_replicas_bear_the_names_of_the_plan_and_single_parts_their_own() -> None:
    assert replica_id(container("policy_model", 1), PLAN) == "policy-model-1"
    assert replica_id(container("router", service="router"), PLAN) == "router"
    assert replica_id(container("added", 2), PLAN) == "added-2"


def test_what_a_plan_is_compared_with_counts_running_replicas_by_digest() -> None:
    containers = [container(number=1), container(number=2), container("policy_model", state="exited", health="")]
    found = observed([*containers, container("router", service="router")]).services
    assert {name: (one.digest, one.replicas) for name, one in found.items()} == {"mcqa": ("digest-of-mcqa", 2)}


def test_replicas_of_two_digests_are_neither() -> None:
    other = container(number=2, labels={"gym.instance": "mcqa", "gym.config-digest": "older"})
    assert observed([container(), other]).services["mcqa"].digest == ""


@pytest.mark.parametrize(
    ("one", "facts", "words"),
    [
        (container(state="exited", health=""), Inspected(exit_code=3), "exit code 3; start it: gym restart mcqa-1"),
        (container(state="exited", health=""), Inspected(exit_code=137), "ended by SIGKILL (docker kill"),
        (container(state="exited", health=""), Inspected(out_of_memory=True), "more memory than it may have"),
        (
            container(health="unhealthy"),
            Inspected(health_output="it does not listen on port 8000\n"),
            "does not listen",
        ),
        (container(state="paused"), Inspected(), "paused; docker unpause gym-demo-1-mcqa-1 wakes it"),
        (container(state="exited", health=""), Inspected(exit_code=86), "its event loop is blocked"),
        (container(), Inspected(health_output=f"503\n{BLOCKED} at app.py:12 in verify"), "app.py:12 in verify"),
        (container(state="created", health=""), Inspected(error="no such device"), "no such device"),
        (container(), Inspected(exit_code=3), ""),
    ],
)
def test_why_it_is_not_healthy_is_reported_in_a_few_words(one: Container, facts: Inspected, words: str) -> None:
    found = detail_of(one, facts)
    assert words in found
    assert bool(words) == bool(found)


@pytest.mark.parametrize(
    ("listed", "facts", "expected"),
    [
        ("unhealthy", Inspected(state="running", health="healthy"), ("healthy", "")),
        ("starting", Inspected(state="running", health="unhealthy", health_output="503"), ("unhealthy", "503")),
        (
            "unhealthy",
            Inspected(state="exited", exit_code=3),
            ("exited", "exit code 3; start it: gym restart mcqa-1 --stack demo"),
        ),
    ],
)
def test_state_and_reason_are_of_one_look(listed: str, facts: Inspected, expected: tuple[str, str]) -> None:
    found = status_of(container(health=listed), PLAN, facts=facts)
    assert (found.state, found.detail) == expected


def test_a_container_whose_last_check_found_its_loop_blocked_is_unhealthy_before_the_engine_says_so() -> None:
    facts = Inspected(health_output=f"/healthz answers 503\n{BLOCKED} at app.py:12 in verify\n")
    assert status_of(container(), PLAN, facts=facts).state == "unhealthy"


def test_a_status_tells_restarts_and_how_long_it_runs() -> None:
    status = status_of(container(), PLAN, facts=Inspected(restarts=2, started_at=1.0))
    assert status.restarts == 2
    assert status.uptime_seconds > 1_000_000
    assert status.container == "gym-demo-1-mcqa-1"
    assert status.implementation == "mcqa"


AGENTS = ("mcqa_simple_agent", "weather_simple_agent")


def shared(**fields: Any) -> Container:
    digests = {name: f"digest-of-{name}" for name in AGENTS}
    found = {"gym.instance": "simple-agent-shared", "gym.instances": json.dumps(digests), "gym.config-digest": "both"}
    return container("simple-agent-shared", labels={**found, "gym.type": "responses_api_agents"}, **fields)


def test_a_container_that_instances_share_is_one_replica_of_each() -> None:
    plan, port = shared_plan(), shared_port("mcqa_simple_agent")
    first, second = statuses_of(shared(), plan)
    assert (first.instance, first.replica, first.implementation) == (AGENTS[0], "mcqa-simple-agent-1", "simple_agent")
    assert first.url == f"http://gym-demo-1-simple-agent-shared-1:{port}" != second.url
    assert first.container == second.container == "gym-demo-1-simple-agent-shared-1"
    assert replica_id(shared(), plan) == "simple-agent-shared-1"
    found = observed([shared()]).services
    assert {name: (one.digest, one.beside) for name, one in found.items()} == {
        AGENTS[0]: (f"digest-of-{AGENTS[0]}", frozenset({AGENTS[1]})),
        AGENTS[1]: (f"digest-of-{AGENTS[1]}", frozenset({AGENTS[0]})),
    }


def test_replicas_beside_the_shared_one_are_counted_and_numbered_on() -> None:
    plan = shared_plan(mcqa_simple_agent=2)
    own = container("mcqa_simple_agent")
    assert replica_id(own, plan) == "mcqa-simple-agent-2"
    assert observed([shared(), own]).services["mcqa_simple_agent"].replicas == 2


def test_of_instances_in_one_container_the_one_that_is_not_well_is_named() -> None:
    plan, port = shared_plan(), shared_port(AGENTS[1])
    failing = Inspected(
        state="running", health="unhealthy", health_output=f"{port}: /healthz answers 503\n{port}: no disk"
    )
    states = [(one.state, one.detail) for one in statuses_of(shared(health="unhealthy"), plan, facts=failing)]
    assert states == [("healthy", ""), ("unhealthy", "no disk")]
    silent = Inspected(state="running", health="unhealthy", health_output="Health check exceeded timeout (5s)")
    assert {one.state for one in statuses_of(shared(health="unhealthy"), plan, facts=silent)} == {"unhealthy"}


def test_a_name_of_an_instance_means_the_container_that_it_shares() -> None:
    plan = shared_plan(mcqa_simple_agent=2)
    there = [shared(), container("mcqa_simple_agent"), container()]
    for name in ("weather_simple_agent", "weather-simple-agent-1", "mcqa-simple-agent-1", "simple-agent-shared"):
        assert choose(there, plan, (name,)) == [shared()]
    assert choose(there, plan, ("mcqa_simple_agent",)) == there[:2]
    assert choose(there, plan, AGENTS) == there[:2]
    assert choose(there, plan, ("mcqa-simple-agent-2",)) == [there[1]]


def test_an_instance_whose_container_was_removed_is_named_with_the_command_that_makes_it() -> None:
    plan = plan_of(service("mcqa", replicas=3), service("judge"), service("none", replicas=0))
    names = read_names(plan.model_dump(mode="json"))
    found = [status_of(container(number=number), plan) for number in (2, 5)]
    listed = {one.replica: (one.state, one.detail) for one in with_missing(names, found)[2:]}
    assert listed == {
        "mcqa-1": ("exited", "no container (yet); make it: gym scale mcqa=3 --stack demo"),
        "judge-1": ("exited", "no container (yet); make it: gym scale judge=1 --stack demo"),
    }
    with pytest.raises(InfraError, match="`judge` has no container"):
        choose([container()], plan, ("judge",))
    with pytest.raises(UserError, match="`none` has no replica: it was scaled to 0.\nGive it one: gym scale none=1"):
        choose([container()], plan, ("none",))


def test_who_names_nothing_of_the_stack_reads_the_instances_in_their_order_and_no_name_of_a_container() -> None:
    plan = plan_of(service("weather"), service("mcqa", replicas=2))
    there = [container(number=1), container(number=2), replace(container(), service=ROUTER, labels={})]
    with pytest.raises(UserError) as caught:
        choose(there, plan, ("nosuch",))
    assert str(caught.value) == "no server of this stack is called `nosuch`.\nThere are: weather, mcqa, router"
    for typed, meant in (("mcqb", "mcqa"), ("mcqa-3", "mcqa")):
        with pytest.raises(UserError, match=f"Did you mean {meant}"):
            choose(there, plan, (typed,))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02T00:00:01.123456789Z", 86401.0),
        ("2024-05-01T10:00:00Z", 1714557600.0),
        ("0001-01-01T00:00:00Z", 0.0),
        ("", 0.0),
    ],
)
def test_a_time_of_the_engine_is_read(text: str, seconds: float) -> None:
    assert timestamp(text) == seconds
