"""The error boundary: which exit code, which words, and no traceback."""

from __future__ import annotations

import errno
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gym.cli.boundary import BUG, INTERRUPTED, KNOWN, TERMINATED, Terminated, exit_code, interruptible
from gym.errors import ConfigError, InfraError, Problem, UserError
from gym.wire.failures import RolloutError


def raising(error: BaseException) -> Callable[[], int]:
    def call() -> int:
        raise error

    return call


def test_a_command_s_own_code_is_the_exit_code() -> None:
    assert exit_code(lambda: 0) == 0
    assert exit_code(lambda: 2) == 2


@pytest.mark.parametrize(
    "error",
    [
        UserError("no server is called mcq", "Did you mean mcqa?"),
        InfraError("the disk is full", "Did you mean mcqa?"),
        RolloutError("model", "answered 500"),
    ],
)
def test_a_known_error_is_one_paragraph_and_its_hint(error: UserError, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(raising(error)) == KNOWN
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"error: {error.what}\n" + (f"{error.hint}\n" if error.hint else "")


def test_brackets_in_an_error_are_text_and_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code(raising(UserError("no extra named [bold]cli[/bold]", "pip install 'compose-gym[cli]'")))
    assert "[bold]cli[/bold]" in (text := capsys.readouterr().err)
    assert "'compose-gym[cli]'" in text


def test_all_problems_of_a_configuration_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    problems = (Problem("duplicate key", "a.yaml", 3, "x"), Problem("missing value", "b.yaml", 7, "y.z"))
    assert exit_code(raising(ConfigError(problems))) == KNOWN
    text = capsys.readouterr().err
    assert "a.yaml:3: x: duplicate key" in text
    assert "b.yaml:7: y.z: missing value" in text


def test_ctrl_c_is_130_and_a_termination_143_without_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(raising(KeyboardInterrupt())) == INTERRUPTED
    assert capsys.readouterr().err.startswith("interrupted; ")
    assert exit_code(raising(Terminated())) == TERMINATED
    assert capsys.readouterr().err == ""


def test_a_full_disk_is_an_error_of_the_machine_and_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere/out.jsonl")
    assert exit_code(raising(error)) == KNOWN
    text = capsys.readouterr().err
    assert "/somewhere/out.jsonl: no space is left on the disk" in text
    assert "df -h" in text


def test_a_bug_leaves_a_report_with_the_traceback_and_without_any_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["gym", "up", "mcqa", "policy_api_key=sk-canary"])
    assert exit_code(raising(ZeroDivisionError("division by zero"))) == BUG
    text = capsys.readouterr().err
    assert "Traceback" not in text
    found = re.search(r"(\S+gym-report-\S+\.txt)", text.replace("\n", ""))
    assert found is not None
    report = Path(found[1].rstrip(";")).read_text("utf-8")
    assert "ZeroDivisionError: division by zero" in report
    assert "command: gym up mcqa policy_api_key=..." in report
    assert "canary" not in report


def test_words_that_are_not_text_do_not_lose_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["gym", "ask", "bad \udcff"])
    assert exit_code(raising(ZeroDivisionError("no text"))) == BUG
    (report,) = tmp_path.iterdir()
    assert "command: gym ask bad \\udcff" in report.read_text("utf-8")
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_sigterm_ends_a_command_the_way_ctrl_c_does_and_the_handler_goes_again() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def wait_for_it() -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
        return 0

    with interruptible():
        assert exit_code(wait_for_it) == TERMINATED
    assert signal.getsignal(signal.SIGTERM) == before


def held(folder: Path, *names: str) -> None:
    for name in names:
        (home := folder / ".gym" / name).mkdir(parents=True)
        (home / "session.json").write_text('{"runtime": "local"}')


def test_ctrl_c_says_that_nothing_is_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held(tmp_path, "gym")  # a stack that was stopped
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert exit_code(raising(KeyboardInterrupt())) == INTERRUPTED
    assert capsys.readouterr().err == "interrupted; nothing is left running\n"


def test_ctrl_c_says_which_stacks_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def status(_self: object, home: Path) -> object:
        if home.name == "broken":
            raise InfraError("the engine does not answer")
        return home

    held(tmp_path, "gym", "mine", "broken")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gym.runtime.local.local_runtime.LocalRuntime.status", status)
    assert exit_code(raising(KeyboardInterrupt())) == INTERRUPTED
    printed = capsys.readouterr().err
    assert "stack 'gym' runs on: gym ps shows it, gym down stops it" in printed
    assert "stack 'mine' runs on: gym ps --stack mine shows it, gym down --stack mine stops it" in printed
    assert "whether stack 'broken' runs is unknown: gym ps --stack broken" in printed


def test_what_ctrl_c_says_stands_in_a_line_of_its_own(tmp_path: Path) -> None:
    """On a terminal, which has echoed `^C` behind whatever stood there."""
    script = (
        "import sys\n"
        "from gym.cli.boundary import exit_code\n"
        "def work():\n    sys.stderr.write('half a line^C'); sys.stderr.flush(); raise KeyboardInterrupt\n"
        "sys.exit(exit_code(work))"
    )
    leader, follower = pty.openpty()
    try:
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, stderr=follower)
        shown = os.read(leader, 4096).decode().splitlines()
    finally:
        os.close(leader)
        os.close(follower)
    assert done.returncode == INTERRUPTED
    assert shown[0] == "half a line^C"
    assert "interrupted; nothing is left running" in shown[1]
