"""What a pause tells beyond the reason: asked of the runtime, beside the collection."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gym.cli.unhealthy import unhealthy_in, with_unhealthy
from gym.collect import Event, Notice, Progress


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
