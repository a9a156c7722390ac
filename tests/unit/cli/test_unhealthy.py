"""What a pause tells beyond the reason: asked of the runtime, beside the collection."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gym.cli import stack_session
from gym.cli.unhealthy import fate_of, unhealthy_in, with_unhealthy
from gym.collect import Event, Notice, Progress
from gym.errors import UserError
from gym.runtime.local import LocalRuntime
from gym.runtime.runtime_names import EngineChoice
from gym.runtime.status import StackStatus


def test_a_pause_is_followed_by_what_ended_and_nothing_else_is() -> None:
    events: list[Event] = []
    all_reported, asked = threading.Event(), []

    def report(event: Event) -> None:
        events.append(event)
        if len(events) == 4:
            all_reported.set()

    def look() -> list[str]:
        asked.append(1)
        return ["one-1 is exited"]

    on_event = with_unhealthy(report, look)
    for event in (Progress(), Notice("one works again"), Notice("paused: one fails", paused=True)):
        on_event(event)
    assert all_reported.wait(120)
    assert events[-1] == Notice("one-1 is exited")
    assert asked == [1]


def test_a_stack_that_is_not_of_this_folder_has_none_unhealthy_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert unhealthy_in("gym") == []


@pytest.mark.parametrize(("stack", "flag"), [("gym", ""), ("mine", " --stack mine")])
def test_a_stopped_collection_asks_whether_its_stack_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stack: str, flag: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fate_of(stack) == f"unknown whether it runs: gym ps{flag}"
    stack_session.open_session(stack, EngineChoice("local"))
    assert fate_of(stack) == f"does not run; gym up NAMES{flag} starts it"
    monkeypatch.setattr(LocalRuntime, "status", lambda _self, _home: StackStatus(stack, "local", ""))
    assert fate_of(stack) == f"runs on; gym down{flag} stops it"


def test_a_stack_of_another_runtime_is_refused_with_the_command_that_stops_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stack_session.open_session("mine", EngineChoice("local"))
    monkeypatch.setattr(LocalRuntime, "status", lambda _self, _home: StackStatus("mine", "local", ""))
    with pytest.raises(UserError, match="gym down --stack mine"):
        stack_session.open_session("mine", EngineChoice("compose"))
