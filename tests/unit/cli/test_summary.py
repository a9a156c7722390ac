"""What a stack that is up proposes to type next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gym.cli.summary import collect_command, show_started
from gym.plan import Plan, Service
from gym.runtime.status import StackStatus
from gym.wire.server_types import ServerType


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_service(here: Path, name: str, type_: ServerType, agent: str | None = None) -> Service:
    """A server below `servers/`, with an example row of that agent."""
    kind = {"resources_servers": "resources", "responses_api_agents": "agents"}.get(type_, "models")
    folder = here / "servers" / kind / name
    (folder / "data").mkdir(parents=True)
    (folder / "app.py").touch()
    row = {"responses_create_params": {"input": "hi"}} | ({"agent_ref": {"name": agent}} if agent else {})
    (folder / "data" / "example.jsonl").write_text(json.dumps(row) + "\n")
    return Service(name=name, slug=name, type=type_, implementation=name, launch="sdk", directory=folder)


def test_the_examples_of_an_environment_by_the_name_of_its_server(here: Path) -> None:
    task = make_service(here, "task_of_mine", "resources_servers", "agent_of_mine")
    agent = make_service(here, "agent_of_mine", "responses_api_agents", "agent_of_mine")
    model = make_service(here, "model_of_mine", "responses_api_models")
    plan = Plan(stack="gym", services=(model, agent, task))
    assert collect_command(plan) == "gym rollouts task_of_mine -o rollouts.jsonl"


def test_rows_of_an_agent_that_is_not_there_are_not_proposed(here: Path) -> None:
    task = make_service(here, "task_of_mine", "resources_servers", "another_agent")
    agent = make_service(here, "agent_of_mine", "responses_api_agents", "agent_of_mine")
    model = make_service(here, "model_of_mine", "responses_api_models")
    proposed = collect_command(Plan(stack="gym", services=(model, task, agent)))
    assert proposed == "gym rollouts agent_of_mine -o rollouts.jsonl"
    assert collect_command(Plan(stack="gym", services=(task,))) == "gym rollouts ROWS.jsonl -o rollouts.jsonl"


def test_rows_that_name_no_agent_are_given_one_where_several_are_there(here: Path) -> None:
    task = make_service(here, "task_of_mine", "resources_servers")
    one, two = (make_service(here, name, "responses_api_agents", "unused") for name in ("one_of_mine", "two_of_mine"))
    alone, both = Plan(stack="gym", services=(task, one)), Plan(stack="gym", services=(task, one, two))
    assert collect_command(alone) == "gym rollouts task_of_mine -o rollouts.jsonl"
    assert collect_command(both) == "gym rollouts task_of_mine -o rollouts.jsonl --agent one_of_mine"


def test_a_file_that_no_name_stands_for_is_named_by_its_path(here: Path) -> None:
    away = make_service(here / "elsewhere", "task_of_mine", "resources_servers", "agent_of_mine")
    agent = make_service(here, "agent_of_mine", "responses_api_agents")
    path = Path("elsewhere") / "servers" / "resources" / "task_of_mine" / "data" / "example.jsonl"
    assert collect_command(Plan(stack="gym", services=(away, agent))) == f"gym rollouts {path} -o rollouts.jsonl"


def test_it_is_collected_where_the_stacks_own_pages_read_it(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, status = Plan(stack="mine", services=()), StackStatus("mine", "local", "http://127.0.0.1:11000", ())
    show_started(status, plan, here / ".gym" / "mine")
    words = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[-4:]]
    assert dict(words) == {
        "router": "http://127.0.0.1:11000",
        "collect": "gym rollouts ROWS.jsonl -o results/rollouts.jsonl --stack mine",
        "read": "http://127.0.0.1:11000 in a browser",
        "stop": "gym down --stack mine",
    }
    monkeypatch.setenv("GYM_RESULTS", "my runs")
    show_started(status, plan, here / ".gym" / "mine")
    assert "-o 'my runs/rollouts.jsonl' --stack" in capsys.readouterr().out
