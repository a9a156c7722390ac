"""`gym test` of a server with requirements of its own: its environment, pytest beside it, and nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli import gym
from tests.support.wheels import write_wheel

TEST = """
import tiny


def test_the_requirement_is_there() -> None:
    assert tiny.ANSWER == 42


async def test_an_async_test_runs_as_well() -> None:
    assert tiny.ANSWER
"""


def test_a_server_with_requirements_is_tested_in_its_own_environment(tmp_path: Path) -> None:
    env = {"GYM_CACHE_DIR": str(tmp_path / "cache")}
    assert gym("new", "resources", "mine", cwd=tmp_path).returncode == 0
    wheel = write_wheel(tmp_path, "tiny", "ANSWER = 42\n")
    (tmp_path / "mine" / "requirements.txt").write_text(f"tiny @ file://{wheel}\n")
    (tmp_path / "mine" / "tests" / "test_tiny.py").write_text(TEST)
    done = gym("test", "mine", cwd=tmp_path, env=env, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    # Its own two tests, and the two above.
    assert "4 passed" in done.stdout
    # What tests need is not part of what the server runs with.
    assert list(tmp_path.glob("cache/pytest/*/pytest"))
    assert not list(tmp_path.glob("cache/envs/*/lib/*/site-packages/pytest"))


def test_a_requirement_that_cannot_be_had_is_shown_in_uv_s_words(tmp_path: Path) -> None:
    assert gym("new", "resources", "mine", cwd=tmp_path).returncode == 0
    (tmp_path / "mine" / "requirements.txt").write_text(f"absent @ file://{tmp_path}/absent-1.0-py3-none-any.whl\n")
    done = gym("test", "mine", cwd=tmp_path, env={"GYM_CACHE_DIR": str(tmp_path / "cache")}, timeout=400)
    assert done.returncode == 1
    assert "absent-1.0" in done.stdout
    assert "requirements.txt" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
