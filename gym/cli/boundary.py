"""One boundary for errors: a known error is one paragraph and exit code 1, Ctrl-C is 130, a bug is 3 with a report."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from gym import __version__
from gym.errors import GymError, InfraError

KNOWN, BUG, INTERRUPTED, TERMINATED = 1, 3, 130, 143

# Errors of the machine that any write may meet: what each is called, and what helps.
MACHINE_TROUBLE = {
    errno.ENOSPC: ("no space is left on the disk", "Free some space (`df -h` shows where), then run this again."),
    errno.EDQUOT: ("the disk quota is used up", "Free some space, then run this again."),
    errno.EROFS: ("the file system is read-only", "Run this from a folder you can write to."),
    errno.EACCES: ("permission denied", "Run this from a folder you can write to, or fix its permissions."),
    errno.EMFILE: ("too many open files", "Raise the limit: `ulimit -n 65536`, then run this again."),
}


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: the same way out as Ctrl-C, so the same things are put in order."""


def exit_code(call: Callable[[], int]) -> int:
    try:
        return call()
    except GymError as error:
        _show_error(error)
        return KNOWN
    except Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        from gym.cli.interrupted import tell_what_is_left  # noqa: PLC0415  (rich)

        tell_what_is_left()
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has left (`gym list | head`). Keep the interpreter from flushing into nowhere at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return KNOWN
    except Exception as error:  # noqa: BLE001 (the one boundary: whatever is left is a bug and is reported as one)
        return _known_or_bug(error)


@contextmanager
def interruptible() -> Iterator[None]:
    """While inside, SIGTERM and SIGHUP end the command the way Ctrl-C does."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = [(number, signal.signal(number, stop)) for number in (signal.SIGTERM, signal.SIGHUP)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _known_or_bug(error: Exception) -> int:
    if isinstance(error, OSError) and error.errno in MACHINE_TROUBLE:
        what, hint = MACHINE_TROUBLE[error.errno]
        _show_error(InfraError(f"{error.filename or 'A write'}: {what}.", hint))
        return KNOWN
    from gym.cli import console  # noqa: PLC0415  (as below)

    console.show_bug(error, _write_report(error))
    return BUG


def _show_error(error: GymError) -> None:
    from gym.cli import console  # noqa: PLC0415  (a command without an error and without output needs no terminal's layout)

    console.show_error(error)


def _write_report(error: Exception) -> Path | None:
    """Everything a maintainer needs, and no value of any option: those may be secrets."""
    import platform  # noqa: PLC0415  (for a bug alone)
    import tempfile  # noqa: PLC0415  (as above)
    import traceback  # noqa: PLC0415  (as above)

    words = [word.partition("=")[0] + "=..." if "=" in word else word for word in sys.argv[1:]]
    text = "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(prefix=f"gym-report-{time.strftime('%Y%m%d-%H%M%S')}-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"gym {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
            file.write(f"command: gym {' '.join(words)}\n\n{text}")
    except OSError:
        return None
    return Path(path)
