"""Runs outside programs: argv in, output out, and an error that shows command, exit code and last output.

A program never outlives the call: a deadline, Ctrl-C or any other error ends it before it goes on, in a thread of
`program_threads` too. The one exception is Compose at work on a stack, which is better finished than cut off.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import IO, NoReturn

from gym.errors import ProgramFailed, UserError

NOT_FOUND = 127
TIMED_OUT = 124
END_SECONDS = 5.0  # for what a program clears away itself after SIGINT: a test's own stack


class ProgramGroup:
    """The programs of several threads. Once ended it starts none, and a thread that waits for one goes no further."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._ended = False

    def start(self, make: Callable[[], subprocess.Popen[str]]) -> subprocess.Popen[str]:
        with self._lock:
            self.check()
            process = make()
            self._running.add(process)
        return process

    def forget(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._running.discard(process)

    def check(self) -> None:
        if self._ended:
            _GROUP.set(None)  # raised once in a thread: what it runs from here on clears away
            raise KeyboardInterrupt

    def end(self) -> None:
        with self._lock:
            self._ended = True
            running = tuple(self._running)
        try:
            for process in running:
                _signal_all_of(process, signal.SIGINT)
            deadline = time.monotonic() + END_SECONDS
            for process in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
        finally:  # a second Ctrl-C too
            for process in running:
                _signal_all_of(process, signal.SIGKILL)


_GROUP: ContextVar[ProgramGroup | None] = ContextVar("program_group", default=None)


@contextlib.contextmanager
def program_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads whose programs, and what those started, end when the block is left by an error or Ctrl-C."""
    group = ProgramGroup()
    with ThreadPoolExecutor(count, initializer=_GROUP.set, initargs=(group,)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            group.end()
            raise


def run_program(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str | None = None,
    timeout: float | None = None,
    on_start: Callable[[subprocess.Popen[str]], None] | None = None,
    pass_fds: Sequence[int] = (),
) -> str:
    """What the program wrote to its standard output. `env`, where given, is the whole environment.

    With `on_start` it is in a session of its own: Ctrl-C and signals to our process group do not reach it; the caller
    of `on_start` ends it. It goes on when we are killed: its output goes to files, since a process that writes to a
    pipe without a reader is ended by SIGPIPE.
    """
    with contextlib.ExitStack() as stack:
        files, group = None, _GROUP.get() if on_start is None else None
        if on_start is not None:
            files = (stack.enter_context(tempfile.TemporaryFile()), stack.enter_context(tempfile.TemporaryFile()))
        try:
            process = stack.enter_context(_start(argv, cwd, env, files, pass_fds, group, has_input=input is not None))
        except OSError as error:
            raise ProgramFailed(argv, NOT_FOUND, f"{error.strerror}: {error.filename}") from error
        if group is not None:
            stack.callback(group.forget, process)
        try:
            if on_start is not None:
                on_start(process)
            output, words = _words(process.communicate(input, timeout), files)
        except subprocess.TimeoutExpired as error:
            _kill(process, group)
            output, words = _words(process.communicate(), files)
            raise ProgramFailed(argv, TIMED_OUT, f"{output}{words}\nno end after {timeout:g} s") from error
        except BaseException:
            _kill(process, group)
            raise
    if group is not None:
        group.check()
    if process.returncode:
        raise ProgramFailed(argv, process.returncode, words + output)
    return output


def stream_program(
    argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, fine: Sequence[int] = (0,)
) -> Generator[bytes, None, None]:
    """Its output line by line; an exit code that is not `fine` is an error. Closing it ends the program."""
    with tempfile.TemporaryFile() as words:
        try:
            process = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=words,
            )
        except OSError as error:
            raise ProgramFailed(argv, NOT_FOUND, f"{error.strerror}: {error.filename}") from error
        with process:
            try:
                assert process.stdout is not None
                yield from process.stdout
                process.wait()
            except BaseException:
                process.kill()
                raise
        if process.returncode not in fine:
            words.seek(0)
            raise ProgramFailed(argv, process.returncode, words.read().decode(errors="replace"))


def become_program(argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> NoReturn:
    """This process goes on as that program: with our terminal, and its exit code is ours."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # this interpreter ignores it, and it would stay ignored
    try:
        if cwd is not None:
            os.chdir(cwd)
        os.execvpe(argv[0], list(argv), dict(os.environ if env is None else env))
    except OSError as error:
        raise ProgramFailed(argv, NOT_FOUND, f"{error.strerror}: {argv[0]}") from error


def find_program(name: str, *, package: str) -> Path:
    """A program beside this Python, where its wheel put it, else on the PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if not found:
        raise UserError(
            f"`{name}` is needed and neither lies beside {sys.executable} nor is on the PATH.",
            f"Install it: {install_command(package)}",
        )
    return Path(found)


def install_command(package: str, *, python: Path | None = None, has_pip: bool | None = None) -> str:
    """What installs a package into the environment of this Python: not each has pip."""
    python = python or Path(sys.executable)
    has_pip = importlib.util.find_spec("pip") is not None if has_pip is None else has_pip
    parts, quoted = python.parts, shlex.quote(package)
    if "pipx" in parts and "venvs" in parts:
        return f"pipx inject compose-gym {quoted}"
    if "uv" in parts and "tools" in parts:
        return f"uv tool install 'compose-gym[cli]' --with {quoted}"
    return f"{python} -m pip install {quoted}" if has_pip else f"uv pip install --python {python} {quoted}"


def end_program(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Asked to, and killed where it has not ended after so long."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _start(
    argv: Sequence[str],
    cwd: Path | None,
    env: Mapping[str, str] | None,
    files: tuple[IO[bytes], IO[bytes]] | None,
    pass_fds: Sequence[int],
    group: ProgramGroup | None,
    *,
    has_input: bool,
) -> subprocess.Popen[str]:
    """A group's program has a process group of its own: one signal reaches all that it started."""
    stdout, stderr = files or (subprocess.PIPE, subprocess.PIPE)

    def make() -> subprocess.Popen[str]:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            encoding="utf-8",
            errors="replace",
            start_new_session=files is not None,
            pass_fds=pass_fds,
            process_group=None if group is None else 0,
        )

    return make() if group is None else group.start(make)


def _kill(process: subprocess.Popen[str], group: ProgramGroup | None) -> None:
    if group is None:
        process.kill()
    else:
        _signal_all_of(process, signal.SIGKILL)


def _signal_all_of(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS answers EPERM of a group that has ended
        os.killpg(process.pid, number)


def _words(read: tuple[str, str], files: tuple[IO[bytes], IO[bytes]] | None) -> tuple[str, str]:
    """Output and errors: what was read from pipes, or lies in files."""
    if files is None:
        return read
    for file in files:
        file.seek(0)
    output, words = (file.read().decode(errors="replace") for file in files)
    return output, words
