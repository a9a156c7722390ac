from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.config.model import ContainerFacts, Instance, StackConfig
from gym.files import own_root
from gym.plan import Plan, make_plan
from gym.plan.model import Observed, ObservedService
from gym.plan.shared_processes import (
    container_slug,
    digests_of_processes,
    processes_of,
    running_processes,
    share_processes,
    shared_processes,
    tell_shared,
    tell_unshared,
)
from gym.wire.stack_names import shared_port
from tests.support.plans import agent, instance

MODEL = instance(
    "policy_model",
    type="responses_api_models",
    implementation="openai",
    fields={"openai_base_url": "https://models.example/v1", "openai_api_key": "sk-canary-0123456789"},
)


MCQA = instance("mcqa")
SOURCES = {"source_digest": "sources", "directory": Path("/gym/servers/simple_agent")}
ASKED = {**SOURCES, "container": ContainerFacts(share=True)}


def loop(name: str, **given: Any) -> Instance:
    """An instance of our agent's loop that may share; all of them run the same files."""
    return agent(name, "mcqa", **ASKED | given)


def shared(*instances: Instance, secrets: tuple[str, ...] = (), **settings: Any) -> Plan:
    return share_processes(make_plan(StackConfig(instances=instances, settings=settings)), secrets)


def together(plan: Plan) -> set[tuple[str, ...]]:
    return {replicas for replicas in processes_of(plan).values() if len(replicas) > 1}


def test_agents_that_may_share_live_in_one_process_and_what_they_serve_does_not() -> None:
    plan = shared(
        loop("one"), loop("two"), MCQA, MODEL, policy_model_name="tiny", policy_api_key="sk-canary-0123456789"
    )
    assert together(plan) == {("one-1", "two-1")}
    assert set(processes_of(plan)) == {"policy-model-1", "mcqa-1", "simple-agent.shared"}


def test_one_alone_has_its_own_process() -> None:
    plan = shared(loop("one"), MCQA, MODEL)
    assert together(plan) == set()
    assert [one.process for one in plan.services] == ["", "", ""]


def test_resources_servers_share_where_they_are_asked_to() -> None:
    asked = {**ASKED, "implementation": "quiz"}
    first, second = instance("first", **asked), instance("second", **asked | {"fields": {"domain": "math"}})
    third = instance("third", **asked | {"container": ContainerFacts()})
    assert together(shared(first, second, third)) == {("first-1", "second-1")}


@pytest.mark.parametrize(
    "own",
    [
        {"share": False},
        {"env": {"LIMIT": "2"}},
        {"secrets": ("API_KEY",)},
        {"cpus": 2},
        {"memory": "2g"},
        {"gpus": "all"},
        {"replicas": 2},
        {"launch": "script"},
    ],
    ids=lambda own: next(iter(own)),
)
def test_an_agent_with_something_of_its_own_has_its_own_process(own: dict[str, Any]) -> None:
    other = loop("other", container=ContainerFacts.model_validate({"share": True} | own))
    assert together(shared(loop("one"), loop("two"), other, MCQA, MODEL)) == {("one-1", "two-1")}


def test_an_agent_with_a_secret_among_its_fields_has_its_own_process() -> None:
    fields = {"resources_server": {"type": "resources_servers", "name": "mcqa"}, "search_api_key": "sk-mine-0123456789"}
    alike = (loop("one"), loop("two"))
    assert together(shared(*alike, loop("other", fields=fields), MCQA, MODEL)) == {("one-1", "two-1")}
    known = shared(*alike, loop("other"), MCQA, MODEL, secrets=("other.max_steps",))
    assert together(known) == {("one-1", "two-1")}


def test_other_sources_are_another_server() -> None:
    newer = loop("newer", source_digest="newer")
    assert together(shared(loop("one"), loop("two"), newer, MCQA, MODEL)) == {("one-1", "two-1")}


def test_a_process_is_replaced_when_any_of_its_instances_changed() -> None:
    def digest(max_steps: int) -> str:
        fields = {"resources_server": {"type": "resources_servers", "name": "mcqa"}, "max_steps": max_steps}
        plan = shared(loop("one"), loop("two", fields=fields), MCQA, MODEL)
        return digests_of_processes(plan)["simple-agent.shared"]

    assert digest(6) == digest(6) != digest(7)


def test_further_replicas_have_their_own_processes() -> None:
    plan = shared(loop("one"), loop("two"), MCQA, MODEL)
    scaled = plan.model_copy(
        update={
            "services": tuple(
                one.model_copy(update={"replicas": 3}) if one.name == "two" else one for one in plan.services
            )
        }
    )
    assert together(scaled) == {("one-1", "two-1")}
    assert {"two-2", "two-3"} <= set(processes_of(scaled))
    assert [one.own_replicas for one in scaled.services if one.process] == [0, 2]


def test_an_instance_that_is_scaled_to_none_is_in_no_process() -> None:
    plan = shared(loop("one"), loop("two"), loop("three"), MCQA, MODEL)
    services = tuple(one.model_copy(update={"replicas": int(one.name != "two")}) for one in plan.services)
    members = shared_processes(plan.model_copy(update={"services": services}))
    assert {process: [one.name for one in each] for process, each in members.items()} == {
        "simple-agent.shared": ["one", "three"]
    }


def test_an_instance_with_something_of_its_own_elsewhere_stays_apart() -> None:
    plan = make_plan(StackConfig(instances=(loop("one"), loop("two"), loop("three"), MCQA, MODEL), settings={}))
    assert together(share_processes(plan, apart={"two"})) == {("one-1", "three-1")}


def test_a_process_and_an_instance_never_have_the_same_name_as_containers() -> None:
    plan = shared(loop("one"), loop("two"), instance("simple_agent_shared"), MCQA, MODEL)
    (process,) = shared_processes(plan)
    assert container_slug(process) == "simple-agent-shared-2"


def test_of_two_with_one_port_the_first_by_name_shares_whichever_else_does() -> None:
    """An address that was read before a change must not mean another instance after it."""
    by_port: dict[int, str] = {}
    clash = next(
        (by_port[port], name)
        for name in (f"agent_{number}" for number in range(10_000))
        if by_port.setdefault(port := shared_port(name), name) != name
    )
    first, second = sorted(clash)
    plan = shared(loop(second), loop("one"), loop(first), MCQA, MODEL)
    assert [one.name for one in plan.services if one.process] == ["one", first]


def test_what_shares_is_reported_and_so_is_where_nothing_can() -> None:
    plan = shared(*(loop(name) for name in ("one", "two", "three", "four")), MCQA, MODEL)
    assert tell_shared(plan, "container") == ("share: 4 simple_agent in one container, simple-agent-shared",)
    notice = "share: not used by swarm, where each instance has its own: one, two, three and 1 more."
    assert tell_unshared(plan, "swarm") == (notice,)
    assert tell_unshared(plan, "compose") == tell_unshared(shared(MCQA, MODEL), "swarm") == ()


OURS = {"directory": own_root() / "servers" / "agents" / "simple_agent", "container": ContainerFacts()}


def ours(name: str, share: bool | None = None) -> Instance:
    """An instance of the agent that comes with gym."""
    return loop(name, **OURS | {"container": ContainerFacts(share=share)})


def again(running: Plan, *instances: Instance) -> Plan:
    """A plan for a stack that runs as `running` says."""
    observed = Observed(services={one.name: ObservedService(digest="", replicas=1) for one in running.services})
    plan = make_plan(StackConfig(instances=instances, settings={}))
    return share_processes(plan, running=running_processes(running, observed))


def test_agents_of_ours_share_where_nothing_says_whether_to() -> None:
    theirs = [loop(name, container=ContainerFacts()) for name in ("three", "four")]
    plan = shared(ours("one"), ours("two"), ours("apart", share=False), *theirs, MCQA, MODEL)
    assert together(plan) == {("one-1", "two-1")}


def test_an_environment_that_is_added_leaves_those_that_run_where_they_are() -> None:
    alone = shared(ours("one"), MCQA, MODEL)
    assert together(again(alone, ours("one"), ours("two"), MCQA, MODEL)) == set()
    first = shared(ours("one"), ours("two"), MCQA, MODEL)
    more = again(first, ours("three"), ours("one"), ours("four"), ours("two"), MCQA, MODEL)
    assert {name: replicas for name, replicas in processes_of(more).items() if len(replicas) > 1} == {
        "simple-agent.shared": ("one-1", "two-1"),
        "simple-agent.shared-2": ("three-1", "four-1"),
    }
    still = again(more, *(ours(name) for name in ("one", "two", "three", "four")), MCQA, MODEL)
    assert processes_of(still) == processes_of(more)
    fewer = again(more, ours("three"), ours("four"), ours("one"), MCQA, MODEL)
    assert set(processes_of(fewer)) == {"simple-agent.shared", "simple-agent.shared-2", "mcqa-1", "policy-model-1"}
    assert tell_shared(fewer, "container") == ("share: 2 simple_agent in one container, simple-agent-shared-2",)
    assert processes_of(again(fewer, ours("three"), ours("four"), ours("one"), MCQA, MODEL)) == processes_of(fewer)


def test_those_that_are_no_longer_like_the_others_of_their_process_leave_it_together() -> None:
    running = shared(*(ours(name) for name in ("one", "two", "three", "four")), MCQA, MODEL)
    newer = [loop(name, **OURS, source_digest="newer") for name in ("three", "four")]
    plan = again(running, ours("one"), ours("two"), *newer, MCQA, MODEL)
    assert together(plan) == {("one-1", "two-1"), ("three-1", "four-1")}


def test_who_asks_to_share_joins_the_others_also_while_they_run() -> None:
    first = shared(ours("one"), ours("two"), MCQA, MODEL)
    asked = again(first, *(ours(name, share=True) for name in ("one", "two", "three")), MCQA, MODEL)
    assert together(asked) == {("one-1", "two-1", "three-1")}
    assert together(again(asked, ours("one", share=False), ours("two"), ours("three"), MCQA, MODEL)) == {
        ("two-1", "three-1")
    }


def test_of_a_stack_that_is_down_nothing_stays_where_it_was() -> None:
    former = shared(ours("one"), MCQA, MODEL)
    assert running_processes(former, Observed()) == running_processes(None, Observed()) == {}
