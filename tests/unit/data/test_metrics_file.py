"""Metrics that are there already: what counts as a conflict and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.data.data_sets import DataSet
from gym.data.metrics_file import conflict_path, find_differences, metrics_of, metrics_path, read_metrics
from gym.data.statistics import Statistics
from gym.errors import UserError


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),  # further keys are fine
        ({"a": 1.5}, {"a": 1.505}),
        ({"a": 0.1}, {"a": 0.1005}),
        ({"a": [1, 2, 2]}, {"a": [2, 1, 2]}),
        ({"a": [{"x": 1.0}, {"y": 2}]}, {"a": [{"y": 2}, {"x": 1.001}]}),
        ({"a": {"Average": 1.0, "Median": 1.0}}, {"a": {"Average": 1.0}}),  # version 0.1
        ({"source": None}, {}),
        (
            {"jsonl_fpath": "resources_servers/mcqa/data/train.jsonl"},
            {"jsonl_fpath": "servers/resources/mcqa/data/train.jsonl"},
        ),
    ],
)
def test_what_is_not_a_conflict(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert find_differences(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ({"a": {"b": 1}}, {"a": {}}, "a.b: was 1, is not there any more"),
        ({"a": {"Average": 1.5}}, {"a": {"Average": 1.51}}, "a.Average: was 1.5, is 1.51"),
        ({"a": 0.1}, {"a": 0.101}, "a: was 0.1, is 0.101"),
        ({"a": 3}, {"a": 4}, "a: was 3, is 4"),
        ({"a": [1, 2, 2]}, {"a": [1, 1, 2]}, "a: was [1, 2, 2], is [1, 1, 2]"),
        ({"a": [1]}, {"a": [1, 1]}, "a: was [1], is [1, 1]"),
        ({"a": [{"x": 1}]}, {"a": [{"x": 2}]}, 'a: was [{"x": 1}], is [{"x": 2}]'),
        ({"license": "MIT"}, {"license": "TBD"}, 'license: was "MIT", is "TBD"'),
        ({"jsonl_fpath": "data/a.jsonl"}, {"jsonl_fpath": "data/b.jsonl"}, None),
    ],
)
def test_what_is_a_conflict_is_reported_in_a_line(old: dict[str, Any], new: dict[str, Any], line: str | None) -> None:
    assert find_differences(old, new) == [line or 'jsonl_fpath: was "data/a.jsonl", is "data/b.jsonl"']


def test_files_are_named_after_the_rows() -> None:
    assert metrics_path(Path("data/train.jsonl")) == Path("data/train_metrics.json")
    assert metrics_path(Path("data/train.jsonl.gz")) == Path("data/train_metrics.json")
    assert conflict_path(Path("data/train_metrics.json")) == Path("data/train_metrics_conflict.json")


def test_a_file_about_something_else_is_not_metrics_of_a_data_set(tmp_path: Path) -> None:
    path = tmp_path / "example_metrics.json"
    path.write_text('[{"agent_metrics": {}}]')
    assert read_metrics(path) is None
    path.write_text('{"Number of examples": 5}')
    assert read_metrics(path) == {"Number of examples": 5}
    path.write_text("{")
    with pytest.raises(UserError, match="is not JSON"):
        read_metrics(path)


def test_a_header_tells_a_source_with_its_type_and_a_slice_last() -> None:
    block = DataSet.model_validate(
        {
            "name": "a",
            "type": "validation",
            "jsonl_fpath": "a.jsonl",
            "license": "MIT",
            "source": {"type": "huggingface", "repo_id": "org/a", "revision": "main"},
            "start_idx": 5,
        }
    )
    header = dict(list(metrics_of(block, Statistics()).items())[:9])
    assert header == {
        "name": "a",
        "type": "validation",
        "jsonl_fpath": "a.jsonl",
        "num_repeats": 1,
        "source": {"type": "huggingface", "repo_id": "org/a", "revision": "main"},
        "gitlab_identifier": None,
        "huggingface_identifier": None,
        "license": "MIT",
        "start_idx": 5,
    }
