"""Rows by how often they were solved: the same ones whatever order, and never a failure as a reward of 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym.collect.keys import row_digest
from gym.data.line_source import Line
from gym.data.rates import Scored, filter_rows, parse_range, sum_rates
from gym.data.row_keys import asked_key
from gym.errors import ConfigError, UserError
from tests.support.row_lines import lines_of_rows


def row(text: str, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": text}, **fields}


def line(one: dict[str, Any]) -> Line:
    return next(lines_of_rows([one]))


def scored(one: dict[str, Any], *rewards: float) -> list[Scored]:
    return [Scored(row_digest(line(one).raw), asked_key(one), reward) for reward in rewards]


def keep(path: Path, rows: list[dict[str, Any]], rollouts: list[Scored], text: str = "0.1..0.9", **how: Any) -> Any:
    options: dict[str, Any] = {"digest": row_digest, "keep_without": False} | how
    return filter_rows(lines_of_rows(rows), sum_rates(rollouts), parse_range(text), path, **options)


def test_rows_between_are_kept_as_they_are_and_in_their_order(tmp_path: Path) -> None:
    rows = [row(name, n=number) for number, name in enumerate("abcd")]
    rollouts = [*scored(rows[2], 1, 0), *scored(rows[1], 0, 0), *scored(rows[0], 0, 1, 1), *scored(rows[3], 1, 1)]
    found = keep(tmp_path / "out.jsonl", rows, rollouts)
    assert [json.loads(one)["n"] for one in (tmp_path / "out.jsonl").read_text().splitlines()] == [0, 2]
    assert found.kept == 2
    assert found.counts == {"between": 2, "too hard": 1, "too easy": 1}


def test_both_ends_belong_to_the_range(tmp_path: Path) -> None:
    rows = [row("a"), row("b")]
    rollouts = [*scored(rows[0], 1, 0, 0, 0), *scored(rows[1], 1, 1, 1, 0)]
    assert keep(tmp_path / "out", rows, rollouts, "0.25..0.75").kept == 2
    assert keep(tmp_path / "out", rows, rollouts, "0.26..0.75").kept == 1


def test_rows_without_rollouts_are_reported_and_dropped_or_kept(tmp_path: Path) -> None:
    rows = [row("a"), row("b"), row("c")]
    found = keep(tmp_path / "out", rows, scored(rows[0], 1, 0))
    assert (found.kept, found.counts["without rollouts"], found.first_without) == (1, 2, "rows:2")
    assert keep(tmp_path / "out", rows, scored(rows[0], 1, 0), keep_without=True).kept == 3


def test_a_row_that_was_written_otherwise_since_is_known_by_what_it_asks(tmp_path: Path) -> None:
    rollouts = scored(row("a"), 1, 0)
    assert keep(tmp_path / "out", [row("a", agent_ref={"name": "x"})], rollouts).kept == 1
    params = {"input": "a", "temperature": 1}
    assert keep(tmp_path / "out", [{"responses_create_params": params}], rollouts).kept == 1
    assert keep(tmp_path / "out", [row("a ")], rollouts).kept == 0


def test_two_rows_that_ask_the_same_have_their_own_rates_where_rollouts_name_them(tmp_path: Path) -> None:
    rows = [row("a", answer=1), row("a", answer=2)]
    found = keep(tmp_path / "out", rows, [*scored(rows[0], 1, 1), *scored(rows[1], 0, 0)])
    assert found.counts == {"too easy": 1, "too hard": 1}


def test_where_no_row_is_kept_the_file_stays_what_it_was(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("before")
    assert keep(tmp_path / "out", [row("a")], scored(row("a"), 1)).kept == 0
    assert (tmp_path / "out").read_text() == "before"
    with pytest.raises(ConfigError, match="rows:1: responses_create_params"):
        keep(tmp_path / "out", [{}], scored(row("a"), 1))


@pytest.mark.parametrize("text", ["0.1", "0.9..0.1", "a..b", "..", "0.1-0.9", "nan..1"])
def test_a_range_that_cannot_be_read_is_reported(text: str) -> None:
    with pytest.raises(UserError, match=r"LOW\.\.HIGH"):
        parse_range(text)
