"""What third parties wrote reaches a terminal as text: nothing in it is obeyed."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from rich.live import Live
from rich.text import Text

from gym.cli import console
from gym.errors import UserError

TITLE, CLIPBOARD = "\x1b]0;owned\x07", "\x1b]52;c;cm0gLXJmIH4=\x1b\\"
MOVES = ("\x1b[2J", "\x1b[1A", "\r", "\b", "\x9b2J", "\x90", "\u202e", "\u2066", "\x7f", "\x1bc")
ATTACKS = (TITLE, CLIPBOARD, *MOVES)
SCRIPT = """
from gym.cli import console
from gym.errors import UserError
import sys
bad = sys.argv[1]
console.show(bad); console.show(console.make_table(("A", bad), [(bad, bad)])); console.show_raw(bad)
console.show_line(bad); console.note(bad); console.note_line(bad); console.show_error(UserError(bad, bad))
console.show_json({"a": bad}); console.show_bug(ValueError(bad), None)
"""


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_control_character_is_shown_and_not_sent(attack: str) -> None:
    found = console.printable(f"a{attack}b")
    assert found[0] == "a"
    assert found[-1] == "b"
    assert not any(ord(one) < 32 or 0x7F <= ord(one) < 0xA0 or one in "\u202e\u2066" for one in found)


def test_lines_tabs_and_letters_of_all_scripts_stay() -> None:
    text = "a\tb\n\u00fc\u4e2d\u05d0\U0001f600 \u200d"
    assert console.printable(text) == text


def test_colours_are_dropped_without_a_trace() -> None:
    assert console.printable("\x1b[1;31mred\x1b[0m") == "red"


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_gym_prints_makes_a_terminal_obey_it(attack: str) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", SCRIPT, f"a{attack}b"]
    environ = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ):
        os.close(theirs)
        seen = b""
        while data := _read(ours):
            seen += data
    os.close(ours)
    text = seen.decode().replace("\r\n", "\n")
    assert text.count("b\n") >= 2
    allowed = console.COLOURS.sub("", text)  # bold heads of our own
    assert attack not in allowed
    assert not console.CONTROLS.search(allowed)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""


def test_a_live_table_is_safe_as_well() -> None:
    file = io.StringIO()
    terminal = console.SafeConsole(file=file, force_terminal=True, width=60)
    with Live(Text(f"a{TITLE}b"), console=terminal, refresh_per_second=1):
        pass
    assert TITLE not in file.getvalue()


def test_what_goes_to_a_file_or_a_program_is_not_changed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from gym.cli import console; console.show_raw('a\\x1b[31mb')"],
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"a\x1b[31mb\n"


def test_an_error_of_a_server_is_printed_in_whole(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_error(UserError(f"the server said {TITLE}", "gym logs"))
    assert "owned" in capsys.readouterr().err


def test_a_table_in_a_file_is_the_one_that_a_layout_would_give(capsys: pytest.CaptureFixture[str]) -> None:
    columns, rows = (
        ("NAME", "KIND", ""),
        [("one", "", "数学 and more"), ("数学", "", "\x1b[31mred\x1b[2J"), ("third", "", "")],
    )
    console.show_table(columns, rows)
    plain = capsys.readouterr().out
    console.show(console.make_table(columns, rows, lines=True))
    assert plain == capsys.readouterr().out
    assert "KIND" not in plain
    assert "red" in plain
