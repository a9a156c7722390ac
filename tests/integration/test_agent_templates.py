"""`gym new --template`: each library as it comes from its registry, in an environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.cli.scaffold import list_templates
from gym.files import asset_dir
from tests.support.cli import gym

SMALL = "mcp"  # what its environment has, the checkout's own has nearly all of
NAMES = [one.name for one in list_templates(asset_dir("templates")) if one.kind == "agent"]


@pytest.mark.parametrize("name", [one if one == SMALL else pytest.param(one, marks=pytest.mark.long) for one in NAMES])
def test_a_new_agent_of_a_library_passes_its_tests(name: str, tmp_path: Path) -> None:
    made = gym("new", "agent", "my_agent", "--template", name, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    tested = gym("test", "my_agent", cwd=tmp_path, timeout=900)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "4 passed" in tested.stdout


def test_the_templates_are_listed_and_another_one_is_refused(tmp_path: Path) -> None:
    listed = gym("new", "agent", "--list-templates", cwd=tmp_path)
    assert listed.returncode == 0
    assert all(name in listed.stdout for name in NAMES)
    refused = gym("new", "agent", "mine", "--template", "langraph", cwd=tmp_path)
    assert refused.returncode == 1
    assert "langgraph" in refused.stderr
    assert not (tmp_path / "mine").exists()
    other = gym("new", "model", "mine", "--template", "mcp", cwd=tmp_path)
    assert (other.returncode, "Leave --template out" in other.stderr) == (1, True)


def test_an_environment_of_each_shape_passes_its_tests(tmp_path: Path) -> None:
    shapes = [one.name for one in list_templates(asset_dir("templates")) if one.kind == "resources"]
    for shape in shapes:
        made = gym("new", "resources", f"my_{shape}", "--template", shape, cwd=tmp_path)
        assert made.returncode == 0, made.stderr
    tested = gym("test", *(f"my_{shape}" for shape in shapes), cwd=tmp_path, timeout=900)
    assert tested.returncode == 0, tested.stdout + tested.stderr
