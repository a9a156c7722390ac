"""Each check of `gym doctor`: what it finds, and what it says fixes it."""

from __future__ import annotations

import os
import resource
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from gym.cli import machine_checks
from gym.runtime.stack_list import FoundStack, StackList


def test_a_port_in_use_is_found_with_its_holder() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        taken = machine_checks.check_port(port)
    assert taken.level == "warn"
    assert str(os.getpid()) in taken.found
    assert "--port 0" in taken.fix


def test_a_port_of_one_s_own_stack_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        mine = FoundStack("eval", tmp_path / ".gym" / "eval", "local", port)
        monkeypatch.setattr(machine_checks, "list_stacks", lambda: StackList((mine,)))
        assert machine_checks.check_port(port) == ("ok", f"port {port}", f"of your stack eval in {tmp_path}", "")
        gone = replace(mine, lost=True)
        monkeypatch.setattr(machine_checks, "list_stacks", lambda: StackList((gone,)))
        assert machine_checks.check_port(port).level == "warn"


def test_a_program_that_is_there_is_shown_with_its_version_and_place() -> None:
    found = machine_checks.check_program("uv", "--version", "uv")
    assert found.level == "ok"
    assert found.found[0].isdecimal()
    assert "uv" in found.found


def test_a_program_that_is_missing_or_broken_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = machine_checks.check_program("no-such-program", "--version", "some-package")
    assert missing.level == "fail"
    assert "some-package" in missing.fix
    broken = tmp_path / "broken-program"
    broken.write_text("#!/bin/sh\necho it is broken >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    found = machine_checks.check_program("broken-program", "--version", "some-package")
    assert found.level == "fail"
    assert "exit code 3" in found.found


def test_a_cache_that_cannot_be_made_is_a_failure(tmp_path: Path) -> None:
    assert machine_checks.check_cache(tmp_path / "new").level == "ok"
    (tmp_path / "file").write_text("")
    found = machine_checks.check_cache(tmp_path / "file" / "cache")
    assert found.level == "fail"
    assert "GYM_CACHE_DIR" in found.fix


def test_disk_is_looked_at_where_the_cache_will_be(tmp_path: Path) -> None:
    assert machine_checks.check_disk(tmp_path / "not" / "there" / "yet").found.endswith("GB free")


def test_a_working_folder_without_room_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine_checks.check_folder(tmp_path).level == "ok"
    monkeypatch.setattr(machine_checks, "GIGABYTE", 2**60)
    found = machine_checks.check_folder(tmp_path)
    assert found.level == "fail"
    assert str(tmp_path) in found.found


def test_folders_of_gym_path_must_be_there(tmp_path: Path) -> None:
    assert machine_checks.check_search_path("").found == "not set"
    assert machine_checks.check_search_path(str(tmp_path)).level == "ok"
    found = machine_checks.check_search_path(os.pathsep.join([str(tmp_path), "/no/such/folder"]))
    assert found.level == "warn"
    assert "/no/such/folder" in found.found
    assert str(tmp_path) not in found.found


def test_without_an_engine_nothing_has_to_be_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/socket")
    (found,) = machine_checks.check_engine()
    assert found.level == "warn"
    assert "No container engine answers at unix:///no/such/socket" in found.found
    assert "local runtime" in found.found


def test_bubblewrap_is_looked_for_and_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install bubblewrap" in machine_checks.check_bubblewrap().fix
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho bwrap: No permissions to create new namespace >&2\nexit 1\n")
    program.chmod(0o755)
    found = machine_checks.check_bubblewrap()
    assert (found.level, "No permissions" in found.found) == ("warn", True)
    program.write_text("#!/bin/sh\n")
    assert machine_checks.check_bubblewrap() == ("ok", "bubblewrap", str(program), "")


def test_few_open_files_are_a_warning_with_what_they_are_enough_for() -> None:
    assert machine_checks.check_open_files(needed=1).level == "ok"
    found = machine_checks.check_open_files(needed=1 << 60)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY:
        assert found.level == "ok"
        return
    assert found.level == "warn"
    assert "rollouts at once through one replica of an agent" in found.found
    assert "ulimit -Hn" in found.fix
