"""Parts of a data set: no leak, the same for the same seed, and a row stays where it is when the file grows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym.data.splitting import parse_ratio, split_rows
from gym.errors import ConfigError, UserError
from tests.support.deep_json import nested
from tests.support.row_lines import lines_of_rows


def row(text: str, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": [{"role": "user", "content": text}]}, **fields}


def split(folder: Path, rows: list[dict[str, Any]], ratio: str = "a=0.8,b=0.2", **how: Any) -> dict[str, list[str]]:
    parts = parse_ratio(ratio, **({"seed": 1} | how))
    files = {name: folder / f"{name}.jsonl" for name in parts.names}
    counts = split_rows(lines_of_rows(rows), parts, files)
    written = {name: path.read_text().splitlines() for name, path in files.items()}
    assert {name: len(lines) for name, lines in written.items()} == counts
    return written


def test_shares_are_about_what_was_asked_for_and_every_row_is_in_one_part(tmp_path: Path) -> None:
    rows = [row(f"question {number}") for number in range(2000)]
    written = split(tmp_path, rows, "train=8,validation=1,test=1")
    assert 1500 < len(written["train"]) < 1700
    assert 150 < len(written["test"]) < 250
    together = [line for lines in written.values() for line in lines]
    assert sorted(together) == sorted(json.dumps(one, separators=(",", ":")) for one in rows)


def test_a_row_keeps_its_part_when_the_file_grows_and_another_seed_parts_otherwise(tmp_path: Path) -> None:
    rows = [row(f"question {number}") for number in range(300)]
    few, many = split(tmp_path, rows[100:200]), split(tmp_path, rows)
    assert set(few["a"]) <= set(many["a"])
    assert set(few["b"]) <= set(many["b"])
    assert split(tmp_path, rows, seed=2) != many


def test_rows_with_the_same_user_messages_stay_together(tmp_path: Path) -> None:
    rows = [row(f"question   {number % 40}\n", answer=number) for number in range(200)]
    rows += [row(f"question {number % 40}", answer=-number) for number in range(200)]
    written = split(tmp_path, rows, "a=1,b=1")
    asked = {name: {" ".join(_text(line).split()) for line in lines} for name, lines in written.items()}
    assert asked["a"]
    assert asked["b"]
    assert not asked["a"] & asked["b"]


def test_rows_with_the_same_field_stay_together_and_one_without_it_is_reported(tmp_path: Path) -> None:
    rows = [row(f"question {number}", source={"book": number % 20}) for number in range(200)]
    written = split(tmp_path, rows, "a=1,b=1", field="source.book")
    books = {name: {json.loads(line)["source"]["book"] for line in lines} for name, lines in written.items()}
    assert books["a"]
    assert not books["a"] & books["b"]
    with pytest.raises(ConfigError, match=r"rows:2: source.book: is missing"):
        split(tmp_path, [rows[0], row("x")], field="source.book")


def test_a_line_that_is_not_a_row_leaves_the_files_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("before")
    with pytest.raises(ConfigError, match="rows:2: responses_create_params"):
        split(tmp_path, [row("x"), {"no": 1}])
    assert (tmp_path / "a.jsonl").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize("text", ["train", "train=0", "a=1,a=2", "=1", "a=x", "../a=1", "a=inf", "a=nan"])
def test_a_ratio_that_cannot_be_read_is_reported(text: str) -> None:
    with pytest.raises(UserError, match="NAME=SHARE"):
        parse_ratio(text, seed=0)


def _text(line: str) -> str:
    return str(json.loads(line)["responses_create_params"]["input"][0]["content"])


def test_a_row_that_is_nested_too_deep_to_be_written_has_its_part(tmp_path: Path) -> None:
    deep = nested(300)
    lines = [json.dumps({"responses_create_params": {"input": deep}}), json.dumps(row("a"))]
    counts = split_rows(lines_of_rows(lines), parse_ratio("a=0.5,b=0.5", seed=1), {one: tmp_path / one for one in "ab"})
    assert sum(counts.values()) == 2
