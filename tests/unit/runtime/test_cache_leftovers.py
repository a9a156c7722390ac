"""What `gym prune` may take of the cache folder: never what a process or a stack runs from."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.runtime.cache_leftovers import KEPT_SECONDS, find_cache_leftovers, remove_cache_leftover, used_environments
from gym.runtime.identity import identify
from gym.runtime.local.home import prepare_home
from gym.runtime.local.pid_file import PidFile, Record
from gym.venvs import MARK, is_made


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def running(cache: Path) -> Iterator[str]:
    """A process that runs from an old environment."""
    folder = make_environment(cache, "of-a-process")
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    with subprocess.Popen([python, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        yield folder.name
        process.kill()


def make_environment(cache: Path, name: str, *, days: float = 30) -> Path:
    folder = cache / "envs" / name
    folder.mkdir(parents=True)
    (folder / MARK).write_bytes(b"x" * 5000)
    age(folder / MARK, days)
    return folder


def age(path: Path, days: float) -> None:
    then = time.time() - days * 86400
    os.utime(path, (then, then))


def names(cache: Path, *, everything: bool = False) -> list[str]:
    return [one.name for one in find_cache_leftovers(cache, time.time(), everything=everything)]


def test_an_environment_goes_when_nothing_has_used_it_for_a_week(cache: Path) -> None:
    make_environment(cache, "old")
    make_environment(cache, "new", days=1)
    assert names(cache) == ["old"]
    assert names(cache, everything=True) == ["new", "old"]


def test_use_makes_an_environment_new_again(cache: Path) -> None:
    folder = make_environment(cache, "old")
    assert is_made(folder)
    assert names(cache) == names(cache, everything=True) == []
    assert not is_made(cache / "envs" / "absent")


def test_what_a_process_runs_from_stays_however_old_it_is(cache: Path, running: str) -> None:
    make_environment(cache, "old")
    assert used_environments(cache / "envs") == {running}
    assert names(cache, everything=True) == ["old"]


def test_what_a_local_stack_would_start_again_stays_without_a_process(cache: Path, tmp_path: Path) -> None:
    for name in ("of-a-server", "science-1", "old"):
        make_environment(cache, name)
    me = identify(os.getpid())
    assert me is not None
    pid_file = PidFile(prepare_home(tmp_path / ".gym" / "gym"), Record(supervisor=me))
    pid_file.set_stack("gym", "", [str(cache / "envs" / "of-a-server" / "bin" / "python")])
    assert names(cache, everything=True) == ["old"]
    pid_file.close()
    assert names(cache, everything=True) == ["of-a-server", "old", "science-1"]


def test_the_newest_wheel_and_build_context_stay(cache: Path) -> None:
    for number in range(3):
        for kind in ("wheels", "base"):
            folder = cache / kind / f"{kind}-{number}"
            folder.mkdir(parents=True)
            age(folder, 30 - number)
    assert names(cache) == ["wheels-0", "wheels-1", "base-0", "base-1"]


def test_what_goes_is_gone_and_was_counted(cache: Path) -> None:
    make_environment(cache, "old")
    (one,) = find_cache_leftovers(cache, time.time(), everything=False)
    assert one.bytes >= 5000
    assert time.time() - one.used > KEPT_SECONDS
    remove_cache_leftover(cache, one)
    assert [path.name for path in (cache / "envs").iterdir()] == ["old.lock"]
    assert names(cache, everything=True) == []
