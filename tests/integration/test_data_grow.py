"""Rows made by program: in the environment's own interpreter, whole or not at all, fewer where there are no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import gym

GENERATOR = """
from gym.server.generating import Made, main, make_row

class Sums:
    licence = "MIT"
    difficulties = ("small", "large")

    def make(self, random, difficulty):
        top = 9 if difficulty == "small" else 10**6
        left, right = random.randint(1, top), random.randint(1, top)
        return Made(make_row("sums", f"{left}+{right}", f"{left} + {right}?"), key=f"{left}+{right}")

raise SystemExit(main(Sums()))
"""
UNLUCKY = "main(Sums()); raise SystemExit(0 if '--describe' in __import__('sys').argv else 'out of luck')"
SPLITS = ("train", "validation", "test")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with an environment of the user's own."""
    folder = tmp_path / "servers/resources/sums"
    (folder / "configs").mkdir(parents=True)
    (folder / "configs/sums.yaml").write_text("sums:\n  resources_servers:\n    sums:\n      entrypoint: app.py\n")
    (folder / "app.py").write_text("")
    (folder / "generate.py").write_text(GENERATOR)
    return tmp_path


def asked(path: Path) -> set[str]:
    return {json.dumps(row["responses_create_params"]) for row in read(path)}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_shipped_environments_make_rows_whose_splits_share_nothing_with_any_seed(tmp_path: Path) -> None:
    made: dict[str, set[str]] = {split: set() for split in SPLITS}
    for split, seed in (("train", "1"), ("train", "2"), ("validation", "1"), ("test", "3")):
        words = ("--rows", "40", "--seed", seed, "--split", split, "--difficulty", "medium")
        done = gym("data", "grow", "stateful_counter", *words, "-o", f"{split}{seed}.jsonl", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"40 rows of stateful_counter (medium, {split})" in done.stdout
        assert len(asked(tmp_path / f"{split}{seed}.jsonl")) == 40
        made[split] |= asked(tmp_path / f"{split}{seed}.jsonl")
    assert len(set.union(*made.values())) == sum(map(len, made.values()))
    assert len(made["train"]) > 40


def test_fewer_rows_than_were_asked_for_are_kept_and_reported(root: Path) -> None:
    done = gym("data", "grow", "sums", "-n", "1000", "-o", "new/all.jsonl", cwd=root)
    assert done.returncode == 1
    rows = read(root / "new/all.jsonl")
    assert 50 < len(rows) < 81
    assert f"{len(rows)} of 1,000 rows: sums has no more (small, train)" in done.stderr
    again = gym("data", "grow", "sums", "-n", str(len(rows)), "--seed", "0", "-o", "again.jsonl", cwd=root)
    assert again.returncode == 0
    assert (root / "again.jsonl").read_bytes() == (root / "new/all.jsonl").read_bytes()


def test_what_can_be_made_is_listed(root: Path) -> None:
    done = gym("data", "grow", "sums", "--list", "--json", cwd=root)
    able = {"licence": "MIT", "difficulties": ["small", "large"], "splits": list(SPLITS), "tasks": [], "folders": False}
    assert json.loads(done.stdout) == {"sums": able}


def test_a_wish_that_cannot_be_met_is_reported_and_no_file_is_left(root: Path) -> None:
    for words, message in (
        (("sums", "--difficulty", "huge"), "no difficulty 'huge'"),
        (("sums", "--split", "dev"), "no split 'dev'"),
        (("mcqa",), "mcqa cannot make rows"),
        (("sums", "--", "--colour", "red"), "unrecognized arguments: --colour red"),
    ):
        done = gym("data", "grow", words[0], "-o", "out.jsonl", *words[1:], cwd=root)
        assert done.returncode == 1
        assert message in done.stderr
    (root / "out.jsonl").write_text("before")
    maker = root / "servers/resources/sums/generate.py"
    maker.write_text(
        GENERATOR.replace("raise SystemExit(main(Sums()))", "main(Sums()); raise SystemExit('out of luck')")
    )
    done = gym("data", "grow", "sums", "-n", "3", "-o", "out.jsonl", cwd=root)
    assert done.returncode == 1
    assert "out of luck" in done.stderr
    assert (root / "out.jsonl").read_text() == "before"
    assert not list(root.glob(".out*"))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("print('hello', flush=True); ", "does not say what it can make"),
        ("'--count' in __import__('sys').argv and print('[]', flush=True); ", "wrote:1: a row is an object"),
    ],
)
def test_what_the_generator_says_wrongly_is_reported_as_its_mistake(root: Path, said: str, message: str) -> None:
    maker = root / "servers/resources/sums/generate.py"
    maker.write_text(GENERATOR.replace("raise SystemExit(", f"{said}raise SystemExit("))
    done = gym("data", "grow", "sums", "-o", "out.jsonl", cwd=root)
    assert done.returncode == 1
    assert message in done.stderr
    assert not (root / "out.jsonl").exists()
