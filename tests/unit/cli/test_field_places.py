"""A field that a server refuses is shown with the file and line that says it, where `gym up` has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.cli.field_places import naming_lines
from gym.cli.saved_words import describe_late
from gym.errors import ConfigError, NotUp
from gym.server.config import ServerConfig, parse_config
from tests.support.config_tree import ConfigTree, instance

CONFIG = """\
m:
  resources_servers:
    mcqa:
      num_workers: 1
      kinnd: rule
      datasets:
        - 7
"""


class Needy(ServerConfig):
    needed: str
    datasets: list[dict[str, object]] = []


def test_what_a_server_refuses_is_named_by_its_line(tmp_path: Path) -> None:
    tree = ConfigTree(tmp_path)
    tree.usual_servers()
    tree.write("a.yaml", CONFIG.replace("- 7", "- {name: 7}"))
    loaded = tree.load(files=("a.yaml",), overrides=("m.resources_servers.mcqa.value=[]",))
    with pytest.raises(ConfigError) as refused:
        parse_config(Needy, "m", instance(loaded, "m").fields)
    log = f"2026-11-28 22:27:06,212 ERROR gym.server: {refused.value}\nthe reason stands above\n"
    with pytest.raises(NotUp) as caught, naming_lines(loaded):
        raise NotUp("m-1", "ended 3 times; its last lines:", log + log, "Fix it.")
    lines = str(caught.value).splitlines()
    assert lines[0] == "m-1: ended 3 times; its last lines:"
    assert lines[-4:] == [
        "command line: m.value: Input should be a valid string (found [])",
        "a.yaml:3: m.needed: Field required",
        "a.yaml:5: m.kinnd: no such field",
        "Fix it.",
    ]
    assert describe_late(caught.value) == "m-1 does not start: a.yaml:5: m.kinnd: no such field"


def test_another_error_stays_as_it_is(tmp_path: Path) -> None:
    tree = ConfigTree(tmp_path)
    tree.usual_servers()
    tree.write("a.yaml", CONFIG.replace("- 7", "- {name: a}"))
    error = NotUp("m-1", "is late", "mm: kinnd: no such field\nm: it starts: anyhow")
    loaded = tree.load(files=("a.yaml",))
    with pytest.raises(NotUp) as caught, naming_lines(loaded):
        raise error
    assert caught.value is error
