"""The wheel in an empty environment, far from the checkout: servers and templates travel inside, stacks run from it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gym
from gym.programs import find_program, run_program
from tests.support.cli import environment

ROOT = Path(gym.__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run_program([uv(), "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT)], timeout=300)
    return next(folder.glob("compose_gym-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The `gym` of an environment that holds the wheel with its `cli` extra and nothing else."""
    venv = tmp_path_factory.mktemp("installed") / "venv"
    yield install(venv, f"{wheel}[cli]", "cli.txt") / "gym"
    shutil.rmtree(venv)


def test_the_wheel_lists_makes_tests_runs_and_collects(installed: Path, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        env = environment({"GYM_CACHE_DIR": str(tmp_path / "cache")})
        done = subprocess.run([installed, *words], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    listed = json.loads(run("list", "--json").stdout)
    assert {"mcqa", "simple_weather", "simple_agent", "scripted"} <= {one["name"] for one in listed}
    assert all(Path(one["directory"]).is_relative_to(installed.parents[1]) for one in listed)
    run("new", "resources", "letters")
    assert "2 passed" in run("test", "letters").stdout
    try:
        run("up", "letters", "simple_weather", "--model", "scripted", "--runtime", "local", "--port", "0")
        run("rollouts", "letters", "simple_weather", "-o", "out.jsonl")
    finally:
        run("down")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == 10
    assert any(row["reward"] == 1.0 for row in rows)


def test_the_bare_wheel_is_the_sdk_and_says_how_to_get_the_command_line(wheel: Path, tmp_path: Path) -> None:
    programs = install(tmp_path / "venv", str(wheel), "sdk.txt")
    run_program([str(programs / "python"), "-c", "import gym.server, gym.server.serve"], cwd=tmp_path)
    done = subprocess.run(
        [programs / "gym", "list"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert re.search(r"pip install .*'compose-gym\[cli\]'", done.stderr)
    assert "Traceback" not in done.stderr


def test_the_wheel_holds_what_a_stack_needs_and_no_cache(wheel: Path) -> None:
    names = run_program([sys.executable, "-m", "zipfile", "-l", str(wheel)])
    for wanted in (
        "templates/resources/app.py.j2",
        "servers/resources/mcqa/app.py",
        "requirements/server.txt",
        "docs/audits.md",
    ):
        assert f"gym/_assets/{wanted}" in names
    for unwanted in ("__pycache__", "_cache/", ".venv", "gym/_assets/servers/resources/mcqa/.", "tests/unit"):
        assert unwanted not in names


def install(venv: Path, what: str, lock: str) -> Path:
    run_program([uv(), "venv", "--quiet", "--python", sys.executable, str(venv)])
    constraint = ("--constraint", str(ROOT / "requirements" / lock))
    run_program([uv(), "pip", "install", "--quiet", "--python", str(venv / "bin" / "python"), *constraint, what])
    return venv / "bin"


def uv() -> str:
    return str(find_program("uv", package="uv"))
