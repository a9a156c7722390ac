"""Rows by chance: exactly so many, in order, as likely as one another, the same for the same seed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gym.data.sampling import choose_places, sample_rows
from gym.errors import ConfigError, UserError


def write(path: Path, count: int) -> str:
    rows = ({"responses_create_params": {"input": str(number)}, "n": number} for number in range(count))
    path.write_text("".join(json.dumps(one) + "\n\n" for one in rows))
    return str(path)


def taken(files: list[str], count: int, seed: int) -> list[int]:
    return [json.loads(line.raw)["n"] for line in sample_rows(files, count, seed=seed)]


def test_so_many_rows_come_in_their_order_and_the_same_again(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", 500)
    first = taken([file], 50, seed=3)
    assert len(set(first)) == 50
    assert first == sorted(first) == taken([file], 50, seed=3)
    assert first != taken([file], 50, seed=4)
    assert taken([file], 500, seed=3) == list(range(500))


def test_every_place_is_as_likely_as_another() -> None:
    counted = Counter(place for seed in range(2000) for place in choose_places(10, 3, seed))
    assert all(500 < counted[place] < 700 for place in range(10))


def test_a_file_that_grew_gives_mostly_the_same_rows() -> None:
    before, after = set(choose_places(1000, 100, 1)), set(choose_places(1100, 100, 1))
    assert len(before & after) > 70


def test_more_rows_than_there_are_and_lines_that_are_none_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="4 rows were asked for, and there are 3"):
        taken([write(tmp_path / "a.jsonl", 3)], 4, seed=0)
    (tmp_path / "bad.jsonl").write_text("{}\n")
    with pytest.raises(ConfigError, match=r"bad\.jsonl:1: responses_create_params: is missing"):
        taken([str(tmp_path / "bad.jsonl")], 1, seed=0)


def test_standard_input_is_sampled_too(tmp_path: Path) -> None:
    data = Path(write(tmp_path / "a.jsonl", 50)).read_bytes()
    code = (
        "from gym.data.sampling import sample_rows\nfor line in sample_rows(['-'], 5, seed=1): print(line.raw.decode())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert [json.loads(line)["n"] for line in done.stdout.splitlines()] == taken([str(tmp_path / "a.jsonl")], 5, seed=1)


def test_of_no_rows_none_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UserError, match=r"empty\.jsonl: no rows"):
        list(sample_rows([str(tmp_path / "empty.jsonl")], 3, seed=0))
