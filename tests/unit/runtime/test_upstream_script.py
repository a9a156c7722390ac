"""`gym-script` starts a server that was written against nemo_gym: its place in that tree, and no Ray at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym.files import asset_dir

STARTER = asset_dir("compose") / "base" / "gym-script"
SERVER_UTILS = """
import os
def get_global_config_dict():
    return {"ray_head_node_address": os.environ.get("ADDRESS")}
def initialize_ray():
    print("ray started")
def run():
    initialize_ray()
    print("served")
"""
APP = """
import sys
from nemo_gym import server_utils
from resources_servers.letters.words import WORD
from resources_servers.letters import app
if __name__ == "__main__":
    server_utils.run()
    print(WORD, sys.argv[1:], app.__file__ == __file__)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Nothing around it is called as in NeMo Gym's tree."""
    (tmp_path / "libraries" / "nemo_gym").mkdir(parents=True)
    (tmp_path / "libraries" / "nemo_gym" / "__init__.py").touch()
    (tmp_path / "libraries" / "nemo_gym" / "server_utils.py").write_text(SERVER_UTILS)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "app.py").write_text(APP)
    (tmp_path / "app" / "words.py").write_text('WORD = "strawberry"\n')
    return tmp_path / "app"


def start(folder: Path, **env: str) -> list[str]:
    argv = [sys.executable, str(STARTER), "resources_servers.letters", "app.py", "--more"]
    environ = {**os.environ, "PYTHONPATH": str(folder.parent / "libraries"), **env}
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_server_finds_itself_in_the_tree_and_starts_no_cluster(folder: Path) -> None:
    assert start(folder) == ["served", "strawberry ['--more'] True"]


def test_a_package_of_that_name_elsewhere_and_its_own_init_do_no_harm(folder: Path) -> None:
    (folder / "__init__.py").write_text('print("imported")\n')
    (folder.parent / "libraries" / "resources_servers" / "other").mkdir(parents=True)
    assert start(folder) == ["imported", "served", "strawberry ['--more'] True"]


def test_a_cluster_that_the_stack_names_is_joined(folder: Path) -> None:
    assert start(folder, ADDRESS="127.0.0.1:6379")[0] == "ray started"
