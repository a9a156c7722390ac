"""What a command that is typed often may load. Its CPU is measured in tests/bench/cold_commands.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gym.cli.quick_commands import read_quick
from gym.cli.typed_stack import TypedStack
from gym.labels import DEFAULT_STACK
from gym.runtime.runtime_names import EngineChoice, write_choice

CHECKOUT = Path(__file__).parents[3]
RUN = """
import json, sys
before = set(sys.modules)
from gym.cli.main import run
code = run(sys.argv[1:])
tops = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
loaded = sorted(name for name in tops if not name.startswith(("_cython_", "cython_runtime")))
ours = sorted(name for name in sys.modules if name.startswith("gym."))
print(json.dumps({"code": code, "loaded": loaded, "ours": ours}), file=sys.stderr)
"""
SCREEN = {"gym", "orjson", "rich"}
YAML = {"yaml", "_yaml"}  # and what Cython registers beside it


def run_cold(*words: str, cwd: Path = CHECKOUT, **more: str) -> dict[str, Any]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GYM_")} | more
    argv = (sys.executable, "-c", RUN, *words)
    ended = subprocess.run(argv, cwd=cwd, env=environ, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ended.stderr.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("words", "may_load"),
    [
        (("--help",), {"gym"}),
        (("--version",), {"gym"}),
        (("list",), SCREEN | YAML),
        (("list", "--json"), SCREEN | YAML),
        (("info", "mcqa"), SCREEN | YAML),
    ],
)
def test_a_command_that_is_typed_often_loads_no_parser_and_no_model(words: tuple[str, ...], may_load: set[str]) -> None:
    found = run_cold(*words)
    assert found["code"] == 0
    assert set(found["loaded"]) <= may_load


def test_the_help_of_rollouts_loads_no_collector() -> None:
    found = run_cold("rollouts", "--help")
    assert found["code"] == 0
    assert not [name for name in found["ours"] if name.startswith(("gym.collect", "gym.runtime", "gym.config"))]


def test_ps_of_a_local_stack_loads_nothing_that_it_does_not_print_with(tmp_path: Path) -> None:
    home = tmp_path / ".gym" / "eval"
    home.mkdir(parents=True)
    write_choice(home, EngineChoice("local"))
    found = run_cold("ps", "--stack", "eval", cwd=tmp_path)
    assert found["code"] == 1  # it does not run
    assert "gym.runtime.local.supervisor_requests" in found["ours"]
    assert set(found["loaded"]) <= SCREEN


@pytest.mark.parametrize(
    ("command", "module"),
    [("ps", "gym.runtime.compose.stack_status"), ("down", "gym.runtime.compose.stack_removal")],
)
def test_a_command_of_a_compose_stack_loads_no_parser_and_no_models(tmp_path: Path, command: str, module: str) -> None:
    home = tmp_path / ".gym" / "eval"
    home.mkdir(parents=True)
    write_choice(home, EngineChoice("compose"))
    found = run_cold(command, "--stack", "eval", cwd=tmp_path, DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert found["code"] == 1  # no engine answers
    assert module in found["ours"]
    assert set(found["loaded"]) <= SCREEN


def test_ls_loads_no_docker_py_and_no_models(tmp_path: Path) -> None:
    environ = {"DOCKER_HOST": f"unix://{tmp_path}/none.sock", "XDG_STATE_HOME": str(tmp_path)}
    found = run_cold("ls", cwd=tmp_path, **environ)
    assert found["code"] == 0
    assert "gym.runtime.compose.engine_reader" in found["ours"]
    assert set(found["loaded"]) <= SCREEN


def test_ps_is_read_in_the_forms_it_is_typed_in() -> None:
    named = read_quick(["ps", "--stack", "eval", "--json"], {})
    assert named is not None
    assert (named.stack, named.as_json, isinstance(named.stack, TypedStack)) == ("eval", True, True)
    assert read_quick(["ps"], {"GYM_STACK": "eval"}) == read_quick(["ps", "--stack", "eval"], {})
    assert read_quick(["down", "--stack", "eval"], {}) == read_quick(["down"], {"GYM_STACK": "eval"})
    here = read_quick(["ps"], {})
    assert here is not None
    assert (here.stack, isinstance(here.stack, TypedStack)) == (DEFAULT_STACK, False)


@pytest.mark.parametrize(
    "words",
    [
        ["ps", "more"],
        ["ps", "--stack"],
        ["ps", "--stack", "No Name"],
        ["ps", "--all"],
        ["down", "--all"],
        ["down", "--json"],
        ["down", "--folder", "x"],
        ["down", "--stack", "eval", "--json"],
        ["info"],
        ["info", "--help"],
        ["ls", "--stack", "eval"],
        ["up"],
    ],
)
def test_every_other_form_is_left_to_the_parser(words: list[str]) -> None:
    assert read_quick(words, {}) is None
