"""What `gym new` copies: each scaffold passes its own tests, ruff and mypy at once, under any settings of its home."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gym.cli.scaffold import class_name, render_tree, write_tree
from gym.config.default_agent import add_default_agents
from gym.config.nodes import plain
from gym.config.yaml_source import read_yaml
from gym.files import asset_dir
from gym.wire.rows import Row

KINDS = ("resources", "agent", "model")
# A name as long as they get: lines that hold it must still be short enough.
NAME = "long_division_with_remainders"
SETTINGS = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture(params=KINDS)
def scaffold(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    values = {"name": NAME, "class_name": class_name(NAME), "title": NAME.replace("_", " ").capitalize(), "path": NAME}
    write_tree(tmp_path / NAME, render_tree(asset_dir("templates") / request.param, values))
    return tmp_path / NAME


def test_a_scaffold_passes_its_own_tests(scaffold: Path) -> None:
    run(scaffold, "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:asyncio")


def test_a_scaffold_passes_ruff_with_ruff_s_settings_and_with_ours(scaffold: Path) -> None:
    run(scaffold, "ruff", "check", "--isolated", ".")
    run(scaffold, "ruff", "format", "--isolated", "--check", ".")
    run(scaffold, "ruff", "check", "--config", str(SETTINGS), ".")


def test_a_scaffold_passes_mypy_when_it_is_strict(scaffold: Path) -> None:
    run(scaffold, "mypy", "--strict", ".")


def test_a_scaffold_has_all_a_server_has(scaffold: Path) -> None:
    made = {str(path.relative_to(scaffold)) for path in scaffold.rglob("*") if path.is_file()}
    wanted = {"app.py", "requirements.txt", f"configs/{NAME}.yaml", "data/example.jsonl", "tests/test_app.py"}
    if " ResourcesServer" in (scaffold / "app.py").read_text("utf-8"):
        wanted.add("data/verifier_cases.jsonl")
    assert made == wanted | {"README.md"}
    lines = (scaffold / "data" / "example.jsonl").read_text("utf-8").splitlines()
    assert len([Row.model_validate_json(line) for line in lines]) == 5


def test_a_scaffold_s_rows_name_an_agent_of_its_config(scaffold: Path) -> None:
    config = plain(add_default_agents(read_yaml(scaffold / "configs" / f"{NAME}.yaml", NAME)))
    agents = {name for name, block in config.items() if "responses_api_agents" in block}
    rows = [json.loads(line) for line in (scaffold / "data" / "example.jsonl").read_text("utf-8").splitlines()]
    assert {row["agent_ref"]["name"] for row in rows if "agent_ref" in row} <= agents
    assert agents or "policy_model" in config


def run(folder: Path, module: str, *words: str) -> None:
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
