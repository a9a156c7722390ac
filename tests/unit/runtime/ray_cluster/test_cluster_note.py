"""A stack on Ray is listed from any folder for as long as its folder names a cluster."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from gym.errors import UserError
from gym.runtime.ray_cluster.cluster_note import forget_cluster, note_cluster, noted_cluster
from gym.runtime.ray_cluster.ray_runtime import RayRuntime
from gym.runtime.stack_list import find_cluster_stacks
from gym.runtime.user_state import remember_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setitem(sys.modules, "ray", None)
    folder = tmp_path / "work" / ".gym" / "evals"
    folder.mkdir(parents=True)
    remember_home(folder, "evals", "ray")
    return folder


def test_it_is_listed_with_why_its_cluster_cannot_be_asked(home: Path) -> None:
    assert find_cluster_stacks() == []
    note_cluster(home, "10.0.0.1:6379")
    assert noted_cluster(home) == "10.0.0.1:6379"
    (found,) = find_cluster_stacks()
    assert (found.stack, found.runtime, found.folder) == ("evals", "ray", home.parent.parent)
    assert "package ray" in found.state
    forget_cluster(home)
    assert find_cluster_stacks() == []


def test_it_is_found_though_its_folder_was_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note_cluster(home, "10.0.0.1:6379")
    shutil.rmtree(home.parent.parent)
    assert noted_cluster(home) == "10.0.0.1:6379"
    (found,) = find_cluster_stacks()
    assert (found.stack, found.lost, found.folder) == ("evals", True, home.parent.parent)
    assert found.state.startswith("its folder is gone; ")
    monkeypatch.setenv("GYM_OWNER", "another")
    assert find_cluster_stacks() == []
    monkeypatch.delenv("GYM_OWNER")
    forget_cluster(home)
    assert noted_cluster(home) == ""
    assert find_cluster_stacks() == []


def test_one_that_cannot_be_ended_stays_listed(home: Path) -> None:
    note_cluster(home, "10.0.0.1:6379")
    with pytest.raises(UserError):
        RayRuntime().down(home)
    assert noted_cluster(home)
