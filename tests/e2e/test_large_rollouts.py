"""A file of 2 GB with 200,000 rollouts: what stays in memory, and that its index is all that a second look reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.console_index import COUNTED, PAGES, measure, write_rollouts

MOST_MEMORY = 300  # MB


@pytest.mark.parametrize(("count", "megabytes"), [(3_000, 12), pytest.param(200_000, 2048, marks=pytest.mark.long)])
def test_a_large_file_opens_by_its_index_within_little_memory(count: int, megabytes: int, tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    write_rollouts(path, count, megabytes << 20)
    cold, again = (measure(name, path) for name in ("cold", "indexed"))
    print(cold, again)  # noqa: T201
    assert len(list(tmp_path.glob(".*.index"))) == 1
    assert again["lines"] >= count * 0.9
    assert set(again["pages"]) == {*PAGES, *(f"{name}, the slowest" for name in COUNTED)}
    assert max(int(one["memory"].split()[0]) for one in (cold, again)) < MOST_MEMORY
