"""Tables of replicas, live and still, and the progress of a collection."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from rich.live import Live

from gym.cli import console
from gym.cli.live_status import _LiveView, live_status
from gym.cli.progress import _BarReporter, _PlainReporter, follow_progress, progress_line, show_summary
from gym.cli.replica_table import replica_table
from gym.collect import BadRow, Notice, Progress, Summary
from gym.collect.events import EXIT_STOPPED, AgentProgress, HeldCalls
from gym.errors import Problem
from gym.runtime.status import ReplicaStatus, StackStatus


def shown(renderable: RenderableType) -> str:
    terminal = Console(file=io.StringIO(), width=120)
    terminal.print(renderable)
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue()


def stack(*states: str) -> StackStatus:
    replicas = [
        ReplicaStatus.read(
            {
                "instance": "mcqa",
                "replica": f"mcqa-{number}",
                "type": "resources_servers",
                "implementation": "mcqa",
                "state": state,
                "url": f"http://127.0.0.1:400{number}",
                "detail": "exit code 1" if state == "exited" else "",
            }
        )
        for number, state in enumerate(states, 1)
    ]
    return StackStatus(stack="gym", runtime="local", router="http://127.0.0.1:11000", replicas=tuple(replicas))


def test_a_table_has_a_line_for_each_replica() -> None:
    text = shown(replica_table(stack("healthy", "exited")))
    lines = text.splitlines()
    assert lines[0].split()[:4] == ["REPLICA", "TYPE", "STATE", "URL"]
    assert lines[1].split() == ["mcqa-1", "resources", "healthy", "http://127.0.0.1:4001"]
    assert "exit code 1" in lines[2]


@pytest.mark.parametrize(
    ("width", "shown_as"),
    [(100, "http://127.0.0.1:11000/s/mcqa"), (60, " /s/mcqa"), (42, "healthy")],
)
def test_on_a_narrow_terminal_addresses_are_shortened_and_no_line_is_folded(
    width: int, shown_as: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    well = replace(stack("healthy", "healthy"), runtime="compose")
    replicas = [replace(one, uptime_seconds=61.0) for one in well.replicas]
    terminal = Console(file=io.StringIO(), width=width)
    monkeypatch.setattr(console, "out", lambda: terminal)
    terminal.print(replica_table(replace(well, replicas=tuple(replicas))))
    assert isinstance(terminal.file, io.StringIO)
    lines = terminal.file.getvalue().splitlines()
    assert len(lines) == 3
    assert shown_as in lines[1]
    assert ("URL" in lines[0]) == (width > 42)


def test_where_there_is_no_terminal_each_change_of_state_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with live_status("starting") as on_status:
        for states in (("starting", "starting"), ("healthy", "starting"), ("healthy", "exited"), ("healthy", "exited")):
            on_status(stack(*states))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "mcqa-1: starting",
        "mcqa-2: starting",
        "mcqa-1: healthy",
        "mcqa-2: exited (exit code 1)",
    ]


def test_the_live_view_says_what_it_waits_for_and_then_shows_every_replica() -> None:
    view = _LiveView("starting stack 'gym'")
    assert "starting stack 'gym'" in shown(view.render())
    view.report(stack("healthy", "starting"))
    text = shown(view.render())
    assert "mcqa-1" in text
    assert "starting" in text


PROGRESS = Progress(
    done=120,
    failed=2,
    total=400,
    rate=31.04,
    mean_reward=0.5125,
    eta_seconds=9.0,
    failures={"model": 2},
    agents={"a": AgentProgress(100, 2, 0.5, {"model": 2}), "b": AgentProgress(20, 0, None)},
)


def test_a_line_of_progress_holds_what_a_person_asks_for() -> None:
    assert progress_line(PROGRESS) == "120/400  reward 0.512  31.0/s  eta 9.0s  2 failed (model 2)"
    assert progress_line(Progress(done=3)) == "3  reward -  0.0/s"


def test_elsewhere_progress_is_one_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    reporter = _PlainReporter(clock=lambda: now[0])
    for second in range(31):
        now[0] = float(second)
        reporter.report(PROGRESS)
    assert len(capsys.readouterr().err.splitlines()) == 3
    now[0] = 60.0
    reporter.report(Progress(paused_reason="policy_model answers 502"))
    assert capsys.readouterr().err.endswith("  paused\n")


def test_remarks_are_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with follow_progress() as on_event:
        on_event(PROGRESS)
        on_event(Notice("the last line was torn and is cut"))
        on_event(BadRow(Problem("not an object", "rows.jsonl", 7)))
    assert capsys.readouterr().err.splitlines() == [
        "the last line was torn and is cut",
        "rows.jsonl:7: not an object",
    ]


def test_a_bad_row_that_ends_the_run_is_reported_once_by_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    with follow_progress(bad_rows=False) as on_event:
        on_event(BadRow(Problem("not an object", "rows.jsonl", 7)))
        on_event(Notice("the last line was torn and is cut"))
    assert capsys.readouterr().err.splitlines() == ["the last line was torn and is cut"]


def test_the_bar_says_why_it_stands_still() -> None:
    reporter = _BarReporter(Console())
    reporter.report(PROGRESS)
    assert "120/400" in shown(reporter.render())
    reporter.report(Progress(paused_reason="policy_model answers 502"))
    assert "paused: policy_model answers 502" in shown(reporter.render())
    reporter.report(Progress(held=(HeldCalls("policy_model", "api.example", 12, 40),)))
    line = "held back: policy_model: 12 calls wait, api.example refused 40 in the last 10 s"
    assert line in " ".join(shown(reporter.render()).split())
    reporter.report(Progress(stopping=True))
    assert "Ctrl-C once more" in shown(reporter.render())


def test_what_is_said_beside_the_bar_stands_in_a_line_of_its_own() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    reporter = _BarReporter(terminal)
    with Live(get_renderable=reporter.render, console=terminal, auto_refresh=False) as live:
        reporter.report(PROGRESS)
        live.refresh()
        reporter.report(Notice("stopping: 30 s for the rollouts under way"))
    assert isinstance(terminal.file, io.StringIO)
    before, notice, _ = terminal.file.getvalue().partition("stopping: 30 s")
    assert notice
    assert "120/400" in before
    assert re.search(r"\r\x1b\[2K(\x1b\[[0-9;]*m)?$", before), repr(before[-40:])  # the bar's line was cleared first


def test_a_stopped_collection_says_what_became_of_its_stack(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    stopped = Summary(EXIT_STOPPED, PROGRESS, tmp_path / "out.jsonl", reason="stopped")
    show_summary(stopped, "runs on; gym down stops it")
    assert re.search(r"^stack +runs on; gym down stops it$", capsys.readouterr().out, re.MULTILINE)
    show_summary(stopped)  # of a stack somewhere else
    assert not re.search(r"^stack ", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ({"model": 3, "row": 2}, "go on    3 of 45 failed and have no reward: the same command retries them"),
        ({"row": 2}, ""),
        ({}, ""),
    ],
)
def test_a_collection_with_failures_ends_well_and_says_so_at_last(
    failures: dict[str, int], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    progress = Progress(done=40, failed=sum(failures.values()), failures=failures)
    show_summary(Summary(0, progress, tmp_path / "out.jsonl", tmp_path / "none.jsonl" if failures else None))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == said if said else not last.startswith("go on")


def test_a_summary_is_a_table_by_agent_and_where_things_are(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    failures = tmp_path / "out_failures.jsonl"
    failures.write_text('{"server": "policy", "message": "it answers 502"}\n' * 2)
    show_summary(
        Summary(
            1, PROGRESS, tmp_path / "out.jsonl", failures, bad_rows=(Problem("x"),), reason="a bad row ended the run"
        )
    )
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines()]
    assert ["a", "100", "0.500", "2", "(model", "2)"] in rows
    assert ["b", "20", "-", "0"] in rows
    assert ["all", "120", "0.512", "2", "(model", "2)"] in rows
    assert f"{failures}  (model 2)" in text.replace("\n", "")
    assert "         2 x policy: it answers 502\n" in text
    assert "1 left out" in text
    assert "a bad row ended the run" in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0s"), (9.96, "10.0s"), (59.6, "60s"), (75, "1m15s"), (7300, "2h01m")]
)
def test_a_duration_is_short_enough_to_read(seconds: float, text: str) -> None:
    assert console.format_duration(seconds) == text
