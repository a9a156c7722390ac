"""`scripts/test` runs a stack's test that failed once more, alone: a few of those, never others, and it says so. The
quick tests run beside lint and types, and both have to pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

ROOT = Path(__file__).parents[2]
FAILS_ONCE = """
from pathlib import Path
def test_stack():
    before = Path(__file__).with_suffix(".tried")
    tried, _ = before.exists(), before.touch()
    assert tried
"""
FAILS = "def test_it():\n    assert False\n"
PASSES = "def test_it():\n    pass\n"


@pytest.mark.parametrize(
    ("tests", "code", "said"),
    [
        ({"integration/test_a.py": FAILS_ONCE, "unit/test_b.py": PASSES}, 0, "PASSED ONLY ALONE"),
        ({"integration/test_a.py": FAILS}, 1, "FAILED ONCE"),
        ({"integration/test_a.py": FAILS_ONCE, "unit/test_b.py": FAILS}, 1, ""),
        ({f"integration/test_{one}.py": FAILS_ONCE for one in "abcd"}, 1, ""),
        ({"integration/test_a.py": PASSES}, 0, ""),
    ],
)
def test_only_a_few_tests_of_stacks_are_tried_again(
    tmp_path: Path, tests: dict[str, str], code: int, said: str
) -> None:
    make_project(tmp_path, tests)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV"))}
    env["GYM_TEST_WORKERS"] = "0"  # in this process: with workers it does the same, and takes longer to start
    done = subprocess.run(
        ["bash", "scripts/test", "--all"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("FAILED ONCE" in done.stdout) == bool(said)
    assert said in done.stdout
    assert ("all servers tested" in done.stdout) == (code == 0)


@pytest.mark.parametrize(
    ("fails", "again", "code", "said"),
    [
        ("mcqa", 0, 0, "PASSED ONLY ALONE"),
        ("mcqa", 1, 1, "FAILED ONCE"),
        ("mcqa swe", 0, 0, "PASSED ONLY ALONE"),
        ("mcqa swe ruler", 0, 1, ""),
        ("", 0, 1, ""),
    ],
)
def test_one_or_two_servers_whose_own_tests_failed_are_tested_again_with_their_audit(
    tmp_path: Path, fails: str, again: int, code: int, said: str
) -> None:
    servers = f"""[ "$2" = --audit ] && echo "again: ${{@:3}}" && exit {again}
    echo 'SERVER  TESTS'; echo 'polymath  passed  18 passed'
    for name in {fails}; do echo "$name  failed  1 failed, 2 passed"; done
    exit 1"""
    make_project(tmp_path, {}, {".venv/bin/gym": servers, ".venv/bin/pytest": "echo all tests passed"})
    done = subprocess.run(["bash", "scripts/test", "--all"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("FAILED ONCE" in done.stdout) == (f"again: {fails}" in done.stdout) == bool(said)
    assert said in done.stdout
    assert ("PASSED ONLY" in done.stdout) == (code == 0)


@pytest.mark.parametrize(("checks", "tests"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_the_quick_tests_pass_where_lint_and_types_do_as_well(tmp_path: Path, checks: int, tests: int) -> None:
    programs = {"scripts/check": f"echo a finding; exit {checks}", ".venv/bin/pytest": f"echo tested; exit {tests}"}
    make_project(tmp_path, {}, programs)
    done = subprocess.run(["bash", "scripts/test"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == (checks or tests)
    assert "tested" in done.stdout
    if not tests:
        assert "a finding" in (done.stderr if checks else done.stdout)


def make_project(folder: Path, tests: dict[str, str], others: Mapping[str, str] = MappingProxyType({})) -> None:
    """The script, a Python with pytest, and in place of the checks and the servers' tests words that tell of them."""
    for name in ("scripts", ".venv/bin"):
        (folder / name).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "test", folder / "scripts" / "test")
    programs = {
        "scripts/env": "",
        "scripts/check": "",
        ".venv/bin/gym": "echo all servers tested",
        ".venv/bin/python": f'exec {sys.executable} "$@"',
        ".venv/bin/pytest": f'exec {sys.executable} -m pytest "$@"',
        **others,
    }
    for name, line in programs.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{line}\n")
        (folder / name).chmod(0o755)
    (folder / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["long", "docker"]\n[tool.coverage.run]\ninclude = ["tests/*"]\n'
        "[tool.coverage.report]\nfail_under = 10\n"
    )
    for name, text in tests.items():
        (folder / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tests" / name).write_text(text)
