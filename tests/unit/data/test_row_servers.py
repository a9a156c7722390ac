"""Which server verifies an agent's rows, and what is said where none can."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gym.config import CatalogEntry, Instance, ServerRef, StackConfig
from gym.data.row_servers import RowServers, agent_for, agent_names, known_fields, server_name

RESOURCES, AGENTS = "resources_servers", "responses_api_agents"


def stack(*, foreign: bool = False, agents: tuple[str, ...] = ("mcqa_simple_agent",)) -> StackConfig:
    ref = ServerRef(type="resources_servers", name="mcqa")
    server = Instance(
        name="mcqa",
        type="resources_servers",
        implementation="mcqa",
        fields={"strict": True, "judge": {"name": "???"}, "key": "${key}", "cpus": 1},
        directory=Path("servers/resources/mcqa"),
        foreign=foreign,
    )
    made = (
        Instance(name=one, type="responses_api_agents", implementation="simple_agent", fields={}, references=(ref,))
        for one in agents
    )
    alone = Instance(name="alone", type="responses_api_agents", implementation="simple_agent", fields={})
    return StackConfig(instances=(server, *made, alone))


def servers(of: StackConfig | None, **more: object) -> RowServers:
    return RowServers(lambda _: Path(sys.executable), of, **more)  # type: ignore[arg-type]


def test_an_agents_rows_are_its_resources_servers_with_what_the_stack_says() -> None:
    found = servers(stack()).find("mcqa_simple_agent")
    assert found is not None
    assert (found.name, found.folder, found.fields) == (
        "mcqa",
        Path("servers/resources/mcqa").absolute(),
        {"strict": True},
    )


@pytest.mark.parametrize(
    ("of", "agent", "why"),
    [
        (stack(), "alone", "alone has no resources server whose code is here"),
        (stack(), "missing", "no server here has an agent 'missing'"),
        (stack(), "", "rows name no agent"),
    ],
)
def test_where_there_is_none_one_line_says_why(of: StackConfig, agent: str, why: str) -> None:
    known = servers(of)
    assert known.find(agent) is None
    assert known.notes == [f"{why}: these rows were checked against the contract alone"]


def test_a_server_written_against_nemo_gym_is_known_as_such() -> None:
    found = servers(stack(foreign=True)).find("mcqa_simple_agent")
    assert found is not None
    assert found.foreign


def test_without_a_stack_a_server_is_found_by_the_agents_name() -> None:
    entries = tuple(
        CatalogEntry(name=name, type="resources_servers", implementation=name, directory=Path(name), aliases=others)
        for name, others in (("mcqa", ()), ("math_with_judge", ("library_judge_math",)), ("math", ()))
    )
    assert server_name("mcqa_simple_agent", entries) == "mcqa"
    assert server_name("math_with_judge_simple_agent", entries) == "math_with_judge"
    assert server_name("library_judge_math_simple_agent", entries) == "library_judge_math"
    assert server_name("mcqaish", entries) == ""
    asked: list[str] = []

    def load(name: str) -> StackConfig:
        asked.append(name)
        return stack()

    assert servers(None, entries=entries, load=load).find("mcqa_simple_agent") is not None
    assert asked == ["mcqa"]


def test_a_data_set_of_a_resources_server_is_that_of_the_one_agent_that_uses_it() -> None:
    one, two = stack(), stack(agents=("a", "b"))
    assert agent_for(one, one.instances[0]) == "mcqa_simple_agent"
    assert agent_for(two, two.instances[0]) == ""
    assert agent_for(two, two.instances[1]) == "a"
    assert agent_names(two) == ("a", "b", "alone")


def test_what_is_not_said_yet_is_not_checked_in_rows() -> None:
    assert known_fields({"a": [1, "${x}"], "b": {"c": "???"}, "d": "x"}) == {"d": "x"}
