"""No command is silent for long, and what it prints is never mixed with the line that moves."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
import typer

from gym.cli.app import _as_command
from gym.cli.live_status import _LineReporter
from gym.cli.sign_of_life import ERASE, LIFE, SignOfLife
from gym.runtime.status import ReplicaStatus, StackStatus
from tests.support.cli import Terminal

HASTY = "from gym.cli.sign_of_life import SignOfLife, LIFE; LIFE.__init__(terminal=0.05, pipe=0.05)\n"


def test_silence_in_a_pipe_is_broken_by_lines_that_say_what_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    life, heard = SignOfLife(pipe=3600.0), ""
    counted = iter(range(10**9))
    with life.of_command("gym export"), life.telling(lambda: f"read {next(counted)}"):
        life._seconds[False] = 0.01  # from here on: on a busy machine the command alone may be silent before
        while "read 1 (" not in heard:
            heard += capsys.readouterr().err
            time.sleep(0.01)
    lines = (heard + capsys.readouterr().err).splitlines()
    assert lines[0].startswith("read 0 (")
    assert not any("gym export" in line for line in lines)


def test_nothing_is_said_after_the_end_nor_while_it_is_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    life = SignOfLife(pipe=0.0)
    life.look()
    with life.of_command("gym logs"), life.hidden():
        life.look()
        capsys.readouterr()
        life.look()
        assert capsys.readouterr().err == ""
    capsys.readouterr()
    life.look()
    assert capsys.readouterr().err == ""


def test_what_is_printed_counts_as_a_sign(capsys: pytest.CaptureFixture[str]) -> None:
    life = SignOfLife(pipe=3600.0)
    with life.telling(lambda: "at work"):
        life.said()
        life.look()
    assert capsys.readouterr().err == ""


def test_on_a_terminal_a_line_moves_and_is_gone_before_anything_is_printed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        HASTY + "import sys, time\n"
        "from gym.cli import console\n"
        "with LIFE.of_command('gym merge'), console.busy(lambda: 'joining 3 shards'):\n"
        "    sys.stdin.readline()\n"
        "    console.show_line('done')\n"
    )
    with Terminal(str(script), cwd=tmp_path, program=sys.executable) as terminal:
        terminal.wait_for(r"[|/-] joining 3 shards \(0 s\)")
        terminal.write("\n")
        terminal.wait_for("done")
        assert terminal.wait() == 0
        assert terminal.is_sane()
        before, _, _ = terminal.shown.rpartition("done")
        assert before.endswith(ERASE)


def test_a_command_is_watched_and_called_as_it_is_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LIFE, "_seconds", {True: 3600.0, False: 0.0})

    def command() -> int:
        heard = ""
        while "gym data validate (" not in heard:
            heard += capsys.readouterr().err
            time.sleep(0.01)
        return 7

    command.__module__ = "gym.cli.data.validate"
    with pytest.raises(typer.Exit) as ended:
        _as_command(command)()
    assert ended.value.exit_code == 7


def test_a_stack_that_starts_slowly_says_for_whom_it_waits_and_what_that_does() -> None:
    reporter = _LineReporter("starting stack 'gym'")
    assert reporter.summary() == "starting stack 'gym'"
    replicas = [
        _replica("mcqa-1", "healthy"),
        _replica("router", "starting"),
        _replica("swe-1", "starting", "building its image"),
        _replica("old-1", "unhealthy", "exit code 1, three lines of its log, and more"),
    ]
    reporter.report(StackStatus(stack="gym", runtime="compose", router="", replicas=tuple(replicas)))
    waits = "router (starting), swe-1 (building its image), old-1 (unhealthy)"
    assert reporter.summary() == f"starting stack 'gym': 1 of 4 healthy, not yet {waits}"


def _replica(name: str, state: str, detail: str = "") -> ReplicaStatus:
    fields = {"instance": name, "replica": name, "type": "router", "implementation": "", "state": state}
    return ReplicaStatus.read({**fields, "detail": detail})
