"""Which stack a command means, which runtime holds it, and what it is asked to load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gym.cli import stack_session
from gym.errors import UserError
from gym.runtime.compose.compose_runtime import ComposeRuntime
from gym.runtime.local import LocalRuntime
from gym.runtime.runtime_names import EngineChoice
from gym.runtime.status import ReplicaStatus, StackStatus


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_stack_is_found_from_every_folder_below_it(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = stack_session.open_session("gym", EngineChoice("local"))
    (here / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(here / "a" / "b")
    found = stack_session.find_session("gym")
    assert found.home == opened.home == here / ".gym" / "gym"
    assert isinstance(found.runtime, LocalRuntime)


def test_the_nearest_stack_of_a_name_wins(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack_session.open_session("gym", EngineChoice("local"))
    (here / "a").mkdir()
    monkeypatch.chdir(here / "a")
    stack_session.open_session("gym", EngineChoice("compose"))
    found = stack_session.find_session("gym")
    assert found.home == here / "a" / ".gym" / "gym"
    assert isinstance(found.runtime, ComposeRuntime)


def test_the_folder_of_a_stack_is_its_owner_s_alone(here: Path) -> None:
    assert stack_session.open_session("gym", EngineChoice("local")).home.stat().st_mode & 0o777 == 0o700


def test_a_stack_that_is_not_there_is_answered_with_those_that_are(here: Path) -> None:
    stack_session.open_session("one", EngineChoice("local"))
    stack_session.open_session("two", EngineChoice("local"))
    with pytest.raises(UserError, match="Known here: one, two") as caught:
        stack_session.find_session("three")
    assert "gym up" in caught.value.hint


def test_a_note_that_cannot_be_read_means_the_local_runtime(here: Path) -> None:
    home = stack_session.open_session("gym", EngineChoice("compose")).home
    (home / "session.json").write_text("{ torn")
    assert isinstance(stack_session.find_session("gym").runtime, LocalRuntime)


def test_a_stack_that_was_started_and_runs_no_more_is_said_not_to_run(here: Path) -> None:
    opened = stack_session.open_session("gym", EngineChoice("local"))
    with pytest.raises(UserError, match="does not run"):
        stack_session.running(opened.home, opened.runtime.name)


def test_compose_files_are_for_compose() -> None:
    assert isinstance(stack_session.make_runtime("compose", (Path("override.yaml"),)), ComposeRuntime)
    with pytest.raises(UserError, match="-f names Compose files"):
        stack_session.make_runtime("local", (Path("override.yaml"),))


def test_the_local_runtime_is_chosen_when_no_engine_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/socket")
    name, why = stack_session.choose_runtime(None)
    assert name == "local"
    assert "No container engine answers at unix:///no/such/socket" in why
    assert stack_session.choose_runtime("compose")[0] == "compose"


def test_an_engine_that_may_not_be_asked_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise PermissionError

    monkeypatch.setattr("gym.engine._ask_socket", refuse)
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    name, why = stack_session.choose_runtime(None)
    assert name == "local"
    assert "this user may not open it" in why


def test_where_no_engine_answers_a_stack_that_was_tried_on_compose_may_run_locally(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/socket")
    stack_session.open_session("gym", EngineChoice("compose"))
    assert isinstance(stack_session.open_session("gym", EngineChoice("local")).runtime, LocalRuntime)


def test_what_is_not_well_is_reported_with_the_command_that_shows_why() -> None:
    mine = ReplicaStatus(
        instance="mine", replica="mine-2", type="resources_servers", implementation="m", state="healthy"
    )
    unhealthy = replace(mine, state="restarting", detail="exit code 1")
    status = StackStatus(stack="gym", runtime="local", router="", replicas=(mine, unhealthy))
    assert stack_session.unhealthy_replicas(status) == ["mine-2 is restarting (exit code 1): gym logs mine"]


def test_an_engine_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UserError, match=r"--on mesos://m:5050: no such engine\.") as refused:
        stack_session.choose_engine("mesos://m:5050")
    assert "--runtime compose|local" in refused.value.hint
