"""Folders with stacks are remembered; nothing is pruned while a command works."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gym.runtime.user_state import (
    HOMES,
    at_work,
    forget_lost_homes,
    known_homes,
    no_other_command,
    notes,
    remember_home,
)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_folder_is_known_as_long_as_it_is_there(tmp_path: Path) -> None:
    homes = [tmp_path / "a" / ".gym" / "gym", tmp_path / "b" / ".gym" / "gym"]
    for home in homes:
        home.mkdir(parents=True)
        remember_home(home, "gym", "compose")
        remember_home(home, "gym", "local")
    shutil.rmtree(homes[1])
    assert [(one.home, one.runtime) for one in known_homes()] == [(homes[0], "local")]
    assert len(notes(HOMES)) == 2
    forget_lost_homes()
    assert len(notes(HOMES)) == 1


def test_a_note_that_is_torn_is_not_a_folder(tmp_path: Path) -> None:
    remember_home(tmp_path, "gym", "local")
    notes(HOMES)[0].write_text("{ torn")
    assert list(known_homes()) == []


def test_without_a_writable_state_folder_nothing_is_remembered_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/no/such/place")
    remember_home(tmp_path, "gym", "local")
    with at_work():
        assert list(known_homes()) == []


def test_several_commands_work_at_once_and_no_one_prunes_meanwhile() -> None:
    with at_work(), at_work(), no_other_command() as alone:
        assert not alone
    with no_other_command() as alone, no_other_command() as second:
        assert (alone, second) == (True, False)
