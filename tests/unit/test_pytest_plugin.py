"""The pytest plug-in on a server of its own: what it offers in `tests`, and that it keeps out of everything else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

APP = """
from helpers import RIGHT
from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest

class QuizConfig(ResourcesConfig):
    answer_needed: str

class Quiz(ResourcesServer[None]):
    config: QuizConfig

    async def verify(self, rollout: VerifyRequest) -> float:
        return float(rollout.last_text == self.config.answer_needed == RIGHT)

app = Quiz.app()
"""
CONFIG = "quiz:\n  resources_servers:\n    quiz:\n      entrypoint: app.py\n      answer_needed: 'yes'\n"
TESTS = """
from helpers import RIGHT
from gym.server.testing import Caller, body_of, running

async def test_it_is_paid(app, rows):
    async with running(app) as url, Caller(url) as caller:
        assert (await caller.post("/verify", body_of(rows[0], RIGHT))).body["reward"] == 1.0
"""
ROW = {"responses_create_params": {"input": "?"}}


def case(name: str, text: str, reward: float) -> str:
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
    request = {**ROW, "response": {"output": output}}
    return json.dumps({"name": name, "kind": "partial", "request": request, "expected_reward": reward})


@pytest.fixture
def quiz(tmp_path: Path) -> Path:
    folder = tmp_path / "quiz"
    for name in ("configs", "data", "tests"):
        (folder / name).mkdir(parents=True)
    (folder / "app.py").write_text(APP)
    (folder / "helpers.py").write_text("RIGHT = 'yes'\n")
    (folder / "configs" / "quiz.yaml").write_text(CONFIG)
    (folder / "data" / "example.jsonl").write_text(json.dumps(ROW))
    (folder / "data" / "verifier_cases.jsonl").write_text("\n".join([case("right", "yes", 1), case("wrong", "no", 0)]))
    (folder / "tests" / "test_quiz.py").write_text(TESTS)
    return folder


def run_pytest(
    folder: Path, *arguments: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    options = ("--import-mode=importlib", "-p", "no:cacheprovider", "-c", os.devnull, "-o", "asyncio_mode=auto")
    loop = ("-o", "asyncio_default_fixture_loop_scope=function")
    argv = [sys.executable, "-m", "pytest", *options, *loop, f"--rootdir={folder}", *arguments]
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def test_a_server_needs_no_conftest_and_its_cases_are_tests(quiz: Path) -> None:
    done = run_pytest(quiz, "-v", "tests")
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert "data/verifier_cases.jsonl::right PASSED" in done.stdout
    assert "data/verifier_cases.jsonl::wrong PASSED" in done.stdout


def test_an_app_that_cannot_be_loaded_fails_with_its_line_alone(quiz: Path) -> None:
    (quiz / "app.py").write_text("def x(:\n")
    done = run_pytest(quiz, "--no-verifier-cases", "tests")
    assert "app.py:1: invalid syntax" in done.stdout, done.stdout + done.stderr
    assert "another exception" not in done.stdout
    assert "1 error" in done.stdout
    assert "pytest_plugin.py" not in done.stdout


def test_a_row_that_is_not_json_fails_with_its_line_alone(quiz: Path) -> None:
    (quiz / "data" / "example.jsonl").write_text(f"{json.dumps(ROW)}\n\n{{broken\n")
    done = run_pytest(quiz, "--no-verifier-cases", "tests")
    assert "data/example.jsonl:3: not JSON: " in done.stdout, done.stdout + done.stderr
    assert "1 error" in done.stdout
    assert "pytest_plugin.py" not in done.stdout


def test_a_case_that_differs_fails_by_its_name_and_says_how(quiz: Path) -> None:
    with (quiz / "data" / "verifier_cases.jsonl").open("a") as file:
        file.write("\n" + case("too generous", "no", 1))
    done = run_pytest(quiz, "-rf", "tests")
    assert done.returncode == 1
    assert "1 failed, 3 passed" in done.stdout, done.stdout
    assert "verifier_cases.jsonl::too generous" in done.stdout
    assert "expected reward 1, got reward 0" in done.stdout


def test_one_test_alone_runs_no_case_and_gym_test_leaves_them_out(quiz: Path) -> None:
    assert "1 passed" in run_pytest(quiz, "tests/test_quiz.py").stdout
    left_out = run_pytest(quiz, "--no-verifier-cases", "-p", "gym.pytest_plugin", "tests")
    assert "1 passed" in left_out.stdout, left_out.stdout + left_out.stderr


def test_cases_that_need_a_sandbox_are_skipped_where_there_is_none(quiz: Path) -> None:
    with (quiz / "configs" / "quiz.yaml").open("a") as file:
        file.write("      sandbox:\n        images: [python]\n")
    assert "1 passed, 2 skipped" in run_pytest(quiz, "tests").stdout


def test_a_conftest_of_the_old_kind_does_no_harm(quiz: Path) -> None:
    (quiz / "tests" / "conftest.py").write_text(
        "import sys\nfrom pathlib import Path\n\nsys.path.insert(0, str(Path(__file__).parents[1]))\n"
    )
    assert "3 passed" in run_pytest(quiz, "tests").stdout


def test_tests_of_anything_else_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        "import sys\n\ndef test_nothing_of_the_sdk_is_loaded():\n"
        "    assert not [one for one in sys.modules if one.startswith(('gym.server', 'gym.config'))]\n"
    )
    done = run_pytest(tmp_path, "tests")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("ci", "ending"), [("", "1 skipped"), ("true", "1 passed")])
def test_what_needs_an_engine_is_skipped_without_one_and_not_in_ci(quiz: Path, ci: str, ending: str) -> None:
    marked = "import pytest\n\n@pytest.mark.docker\ndef test_a_stack():\n    pass\n"
    (quiz / "tests" / "test_stack.py").write_text(marked)
    environ = {**os.environ, "DOCKER_HOST": f"unix://{quiz}/no.sock", "CI": ci}
    done = run_pytest(quiz, "--strict-markers", "-m", "docker", "-rs", "tests", environ=environ)
    assert ending in done.stdout, done.stdout + done.stderr
    assert ("no container engine: " in done.stdout) is (not ci)


def test_a_test_that_hangs_is_named_and_is_the_last_one(quiz: Path) -> None:
    (quiz / "tests" / "test_slow.py").write_text(
        "import asyncio, time\nasync def test_first(): await asyncio.sleep(1e6)\ndef test_second(): time.sleep(1e6)\n"
    )
    done = run_pytest(quiz, "tests/test_slow.py", environ={**os.environ, "GYM_TEST_SECONDS": "0.2"})
    assert "test_first had not ended after 0.2 s" in done.stdout, done.stdout + done.stderr
    assert "test_first did not end, so no other test was run" in done.stdout
    assert "1 failed" in done.stdout


def test_a_test_that_lets_no_python_run_ends_them_all_with_its_place(quiz: Path) -> None:
    (quiz / "tests" / "test_slow.py").write_text(
        "from gym import pytest_plugin\npytest_plugin.SPARE_SECONDS = 0.2\n"
        "def test_it():\n    import re, signal\n    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n"
        "    re.match('(a+)+$', 'a' * 60 + 'b')\n"
    )
    done = run_pytest(quiz, "tests/test_slow.py", environ={**os.environ, "GYM_TEST_SECONDS": "0.2"})
    assert done.returncode == 1
    assert 'test_slow.py", line 6 in test_it' in done.stderr
