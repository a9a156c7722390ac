"""What a person meets who mistypes: one paragraph, the next command, exit code 1 or 2, and never a traceback."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.cli import GYM, environment, gym


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("up", "mcqq"), 1, "mcqa"),
        (("up",), 1, "gym list"),
        (("up", "mcqa", "--replicas", "mcqa=many"), 1, "mcqa=4"),
        (("up", "mcqa", "--replicas", "mcqx=2"), 1, "mcqa"),
        (("up", "mcqa", "--model", "scriptd"), 1, "scripted"),
        (("up", "mcqa", "--bind", "nowhere"), 1, "not an address"),
        (("up", "mcqa", "--runtime", "kubernetes"), 2, "compose"),
        (("up", "mcqa", "-c", "absent.yaml"), 1, "absent.yaml"),
        (("up", "mcqa", "--token-file", "absent.txt"), 1, "absent.txt"),
        (("config", "mcqa", "a..b=1"), 1, "a..b"),
        (("info", "simple_wether"), 1, "simple_weather"),
        (("test", "mcqq"), 1, "mcqa"),
        (("test",), 1, "--all"),
        (("new", "resources", "My Env!"), 1, "my_env"),
        (("new", "resources", "mcqa"), 1, "already"),
        (("new", "verifier", "mine"), 2, "resources"),
        (("down",), 1, "No stack 'gym'"),
        (("ps",), 1, "No stack 'gym'"),
        (("logs", "mcqa"), 1, "No stack 'gym'"),
        (("scale", "mcqa=2"), 1, "No stack 'gym'"),
        (("restart",), 1, "No stack 'gym'"),
        (("ps", "--stack", "No Such Name"), 2, "gym or eval-2"),
        (("rollouts", "mcqa"), 2, "--output"),
        (("rollouts", "mcqa", "-o", "x.jsonl", "--shard", "2of3", "--url", "http://127.0.0.1:9"), 1, "2/8"),
        (("rollouts", "mcqa", "-o", "x.jsonl", "--url", "http://127.0.0.1:9"), 1, "127.0.0.1:9"),
        (("rollouts", "openai_", "-o", "x.jsonl", "--url", "http://127.0.0.1:9"), 1, "openai"),
        (("frobnicate",), 2, "No such command"),
        (("vresion",), 2, "version"),
    ],
)
def test_a_mistake_is_answered_in_one_paragraph(
    words: tuple[str, ...], code: int, message: str, tmp_path: Path
) -> None:
    done = gym(*words, cwd=tmp_path)
    said = " ".join(done.stderr.split())
    assert done.returncode == code, done.stderr
    assert message in said
    assert "Traceback" not in said
    assert "bug:" not in said
    assert done.stdout == ""


def test_a_working_folder_that_is_read_only_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / ".gym").write_text("a file where a folder should be\n")
    done = gym("up", "mcqa", "--model", "scripted", "--runtime", "local", "--port", "0", cwd=tmp_path)
    assert done.returncode == 1
    assert str(tmp_path / ".gym") in done.stderr
    assert "Traceback" not in done.stderr
    assert "bug:" not in done.stderr


def test_a_reader_that_leaves_early_is_not_an_error(tmp_path: Path) -> None:
    pipe = ["sh", "-c", f"{GYM} list --json | head -1"]
    done = subprocess.run(pipe, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.stdout == "[\n"
    assert done.stderr == ""
