"""The events of a collection as a program reads them."""

from __future__ import annotations

import json

import pytest

from gym.cli.progress import follow_progress
from gym.collect import BadRow, Notice, Progress
from gym.errors import Problem


def test_events_are_one_object_a_line_and_progress_comes_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    with follow_progress(as_json=True) as report:
        for done in range(5):
            report(Progress(done=done, total=9, failures={"model": 1}))
        report(Notice("paused: mcqa fails"))
        report(BadRow(Problem("not JSON", file="in.jsonl", line=3)))
    out, err = capsys.readouterr()
    events = [json.loads(line) for line in err.splitlines()]
    assert [one["event"] for one in events] == ["progress", "notice", "bad_row"]
    assert (events[0]["done"], events[0]["total"], events[0]["failures"]) == (0, 9, {"model": 1})
    assert events[1]["text"] == "paused: mcqa fails"
    assert events[2]["text"] == "in.jsonl:3: not JSON"
    assert out == ""
