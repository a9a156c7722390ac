from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from gym.errors import InfraError, UserError
from gym.runtime.identity import Identity, identify
from gym.runtime.local.home import one_command, only_supervisor, prepare_home, unwritable
from gym.runtime.local.pid_file import PidFile, Record, read_record, remove_published, sweep


def me() -> Identity:
    found = identify(os.getpid())
    assert found is not None
    return found


def test_a_stacks_folder_is_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "h").mkdir(mode=0o755)
    home = prepare_home(tmp_path / "h")

    assert {stat.S_IMODE(path.stat().st_mode) for path in (home.path, home.logs, home.traefik)} == {0o700}


def test_one_command_at_a_time_and_the_other_learns_whose_it_is(tmp_path: Path) -> None:
    home = prepare_home(tmp_path)
    with (
        one_command(home),
        pytest.raises(UserError, match=rf"another gym command \(pid {os.getpid()}\)"),
        one_command(home),
    ):
        pass
    with one_command(home), only_supervisor(home) as first, only_supervisor(home) as second:
        assert (first, second) == (True, False)


def test_a_full_disk_and_a_missing_right_are_distinguished(tmp_path: Path) -> None:
    full = unwritable(tmp_path, OSError(errno.ENOSPC, "No space left on device"))
    forbidden = unwritable(tmp_path, OSError(errno.EROFS, "Read-only file system"))

    assert isinstance(full, InfraError)
    assert "df -h" in full.hint
    assert isinstance(forbidden, UserError)
    assert "Read-only file system" in forbidden.what


def test_what_is_recorded_is_on_the_disk_at_once(tmp_path: Path) -> None:
    home = prepare_home(tmp_path)
    pid_file = PidFile(home, Record(supervisor=me(), control="/c"))
    pid_file.set_stack("test", "http://r")
    pid_file.add("a-1", me())
    pid_file.add("b-1", me())
    pid_file.drop("a-1")
    record = read_record(home)

    assert record is not None
    assert (record.stack, record.router, list(record.processes)) == ("test", "http://r", ["b-1"])
    pid_file.close()
    assert read_record(home) is None


def test_a_removed_folder_is_not_made_again(tmp_path: Path) -> None:
    home = prepare_home(tmp_path / "h")
    pid_file = PidFile(home, Record(supervisor=me()))
    pid_file.add("a-1", me())
    home.path.rename(tmp_path / "away")
    pid_file.drop("a-1")

    with pytest.raises(FileNotFoundError):
        pid_file.add("b-1", me())
    assert not home.path.exists()


def test_strangers_that_bear_recorded_pids_are_left_alone(tmp_path: Path) -> None:
    home = prepare_home(tmp_path)
    stranger = Identity(pid=os.getpid(), start="of another time")
    PidFile(home, Record(supervisor=stranger)).add("a-1", stranger)

    assert sweep(home) == 0
    assert read_record(home) is None


def test_an_unreadable_record_is_none(tmp_path: Path) -> None:
    home = prepare_home(tmp_path)
    home.state.write_text("{torn")

    assert read_record(home) is None
    assert sweep(home) == 0


def test_what_was_published_goes_and_logs_stay(tmp_path: Path) -> None:
    home = prepare_home(tmp_path)
    for path in (home.discovery, home.state, home.traefik / "static.yml", home.log("mcqa-1")):
        path.write_text("x")
    remove_published(home)

    assert [path.name for path in home.path.rglob("*") if path.is_file()] == ["mcqa-1.log"]
