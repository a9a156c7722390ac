"""The one door to outside programs: argv in, output out, and an error that shows command, exit code and last words.

A program never outlives the call: a deadline, Ctrl-C or any other error ends it before it goes on.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gym.errors import ProgramFailed, UserError

NOT_FOUND = 127
TIMED_OUT = 124


def run_program(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,
    timeout: float | None = None,
) -> str:
    """What the program wrote to its standard output. `env`, where given, is the whole environment."""
    try:
        process = _start(argv, cwd, env, has_input=input is not None)
    except OSError as error:
        raise ProgramFailed(argv, NOT_FOUND, f"{error.strerror}: {error.filename}") from error
    with process:
        try:
            output, words = process.communicate(input, timeout)
        except subprocess.TimeoutExpired as error:
            process.kill()
            output, words = process.communicate()
            raise ProgramFailed(argv, TIMED_OUT, f"{output}{words}\nno end after {timeout:g} s") from error
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise ProgramFailed(argv, process.returncode, words + output)
    return output


def find_program(name: str, *, package: str) -> Path:
    """A program beside this Python, where its wheel put it, else on the PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if not found:
        raise UserError(
            f"`{name}` is needed and neither lies beside {sys.executable} nor is on the PATH.",
            f"Install it: {sys.executable} -m pip install {package}",
        )
    return Path(found)


def _start(
    argv: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None, *, has_input: bool
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=None if env is None else dict(env),
        stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
