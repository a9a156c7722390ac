from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest

from gym.errors import ProgramFailed, UserError
from gym.programs import (
    NOT_FOUND,
    TIMED_OUT,
    find_program,
    install_command,
    program_threads,
    run_program,
    stream_program,
)
from tests.support.docker import eventually


def test_the_output_of_a_program_comes_back(tmp_path: Path) -> None:
    code = "import os, sys; sys.stderr.write('noise'); print(os.getcwd(), os.environ['A'], sys.stdin.read())"
    output = run_program([sys.executable, "-c", code], cwd=tmp_path, env={"A": "b"}, input="given")

    assert output == f"{tmp_path} b given\n"


def test_a_failure_shows_command_exit_code_and_last_words() -> None:
    with pytest.raises(ProgramFailed) as failure:
        run_program([sys.executable, "-c", "print('before'); raise SystemExit('no luck')"])

    assert failure.value.code == 1
    assert "no luck" in failure.value.output
    assert "before" in failure.value.output
    assert "exit code 1" in str(failure.value)


def test_lines_come_as_they_are_written_and_the_exit_code_in_the_end() -> None:
    code = "import sys; print('one', flush=True); sys.stderr.write('noise'); print('two'); raise SystemExit(4)"
    assert list(stream_program([sys.executable, "-c", code], fine=(0, 4))) == [b"one\n", b"two\n"]
    lines = stream_program([sys.executable, "-c", code])
    assert [next(lines), next(lines)] == [b"one\n", b"two\n"]
    with pytest.raises(ProgramFailed, match="exit code 4") as failure:
        next(lines)
    assert failure.value.output == "noise"
    with pytest.raises(ProgramFailed, match="No such file"):
        next(stream_program(["/no/such/program"]))


def test_a_program_without_a_reader_of_its_lines_is_ended() -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(1000)"
    lines = stream_program([sys.executable, "-c", code])
    process = int(next(lines))
    assert Path(f"/proc/{process}").exists()
    lines.close()
    assert not Path(f"/proc/{process}").exists()


def test_a_program_that_is_not_there_is_a_failure_of_it() -> None:
    with pytest.raises(ProgramFailed, match="No such file") as failure:
        run_program(["/no/such/program"])

    assert failure.value.code == NOT_FOUND


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(ProgramFailed, match=r"no end after 0\.2 s") as failure:
        run_program([sys.executable, "-c", "import time; time.sleep(1000)"], timeout=0.2)

    assert failure.value.code == TIMED_OUT


def test_programs_run_from_several_threads_at_once() -> None:
    seen: list[str] = []
    argv = [sys.executable, "-I", "-S", "-c", "print('x')"]
    threads = [threading.Thread(target=lambda: seen.append(run_program(argv))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == ["x\n"] * 4


def test_a_program_lies_beside_python_or_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "only-here"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_program("only-here", package="x") == program
    assert find_program(Path(sys.executable).name, package="x") == Path(sys.executable)


def test_a_program_that_is_nowhere_comes_with_the_command_that_gets_it() -> None:
    with pytest.raises(UserError) as missing:
        find_program("surely-nowhere", package="some-package")

    assert missing.value.hint == f"Install it: {install_command('some-package')}"


def test_the_words_of_a_program_in_a_session_of_its_own_come_back_too() -> None:
    code = "import sys; print('out'); sys.exit('no luck' if len(sys.argv) > 1 else 0)"
    argv = [sys.executable, "-c", code]
    assert run_program(argv, on_start=lambda _: None) == "out\n"
    with pytest.raises(ProgramFailed, match="exit code 1") as failure:
        run_program([*argv, "x"], on_start=lambda _: None)

    assert failure.value.output == "no luck\nout\n"


def test_a_program_in_a_session_of_its_own_goes_on_when_its_caller_is_killed(tmp_path: Path) -> None:
    done = tmp_path / "done"
    orphan = (
        "import os, pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "while os.getppid() == int(sys.argv[1]): time.sleep(0.01)\n"
        "for stream in (sys.stdout, sys.stderr): print('still here', file=stream, flush=True)\n"
        f"pathlib.Path({str(done)!r}).touch()\n"
    )
    caller = (
        "import os, signal, sys\n"
        "from gym.programs import run_program\n"
        f"argv = [sys.executable, '-c', {orphan!r}, str(os.getpid())]\n"
        "run_program(argv, on_start=lambda _: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    assert subprocess.run([sys.executable, "-c", caller], check=False).returncode == -signal.SIGKILL
    eventually(done.exists, bool)


@pytest.mark.parametrize(
    ("python", "has_pip", "command"),
    [
        ("/w/.venv/bin/python", True, "/w/.venv/bin/python -m pip install 'pyarrow[x]'"),
        ("/w/.venv/bin/python", False, "uv pip install --python /w/.venv/bin/python 'pyarrow[x]'"),
        ("/h/pipx/venvs/compose-gym/bin/python", True, "pipx inject compose-gym 'pyarrow[x]'"),
        ("/h/uv/tools/compose-gym/bin/python", False, "uv tool install 'compose-gym[cli]' --with 'pyarrow[x]'"),
    ],
)
def test_a_package_is_installed_by_what_this_environment_has(python: str, has_pip: bool, command: str) -> None:
    assert install_command("pyarrow[x]", python=Path(python), has_pip=has_pip) == command


def test_who_leaves_threads_by_an_error_ends_their_programs_with_all_that_these_started(tmp_path: Path) -> None:
    """And no thread goes on to its next program, but each may clear away."""
    waits = "import os, sys, time, pathlib; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(1e6)"
    argv = [sys.executable, "-c", waits]
    starts = f"import subprocess; subprocess.run({[*argv, str(tmp_path / 'inner')]!r})"
    clears = [sys.executable, "-c", "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()", str(tmp_path / "cleared")]

    def work() -> None:
        try:
            with suppress(ProgramFailed):
                run_program([sys.executable, "-c", starts])
            run_program([*argv, str(tmp_path / "next")])
        finally:
            run_program(clears)

    def leave() -> None:
        with program_threads(1) as pool:
            runs.append(pool.submit(work))
            eventually(lambda: written(tmp_path / "inner"), bool)
            raise RuntimeError("enough")

    runs: list[Future[None]] = []
    with pytest.raises(RuntimeError, match="enough"):
        leave()
    assert isinstance(runs[0].exception(), KeyboardInterrupt)
    eventually(lambda: is_alive(int(written(tmp_path / "inner"))), lambda alive: not alive)
    assert not (tmp_path / "next").exists()
    assert (tmp_path / "cleared").exists()


def written(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def is_alive(process: int) -> bool:
    """A dead one stays in the list until who took it over looks."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
