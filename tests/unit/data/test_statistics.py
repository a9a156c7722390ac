"""What a metrics file says of rows: worked out by hand from the contract's rules, key by key."""

from __future__ import annotations

import json
from typing import Any

import orjson

from gym.data.data_sets import DataSet
from gym.data.metrics_file import metrics_of, metrics_text
from gym.data.statistics import Statistics

ROWS: list[dict[str, Any]] = [
    {
        "responses_create_params": {
            "input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2+2?"}],
            "temperature": 0.5,
            "top_p": 0.9,
            "tools": [{"type": "function", "name": "add", "parameters": {}}],
        },
        "answer": "4",
        "score": 1,
        "tags": ["a", "b"],
        "meta": {"x": 1},
        "ok": True,
    },
    {
        "responses_create_params": {"input": "Hello there", "temperature": 1},
        "response": {"output": []},
        "answer": "4",
        "score": 2.5,
        "tags": ["b"],
        "ok": False,
        "note": None,
    },
]
# Each row twice. Words of the two: 23 and 5; tokens by the estimate: 21 and 2.
GOLDEN = """{
    "name": "sums",
    "type": "train",
    "jsonl_fpath": "data/train.jsonl",
    "num_repeats": 2,
    "source": null,
    "gitlab_identifier": {
        "dataset_name": "sums",
        "version": "0.0.1",
        "artifact_fpath": "train.jsonl"
    },
    "huggingface_identifier": {
        "repo_id": "org/sums",
        "artifact_fpath": null
    },
    "license": "MIT",
    "Number of examples": 4,
    "Number of tools": {
        "Total # non-null values": 2,
        "Average": 1.0,
        "Min": 1.0,
        "Max": 1.0,
        "Standard deviation": 0.0
    },
    "Json-dumped number of words (proxy for token count)": {
        "Total # non-null values": 4,
        "Average": 14.0,
        "Min": 5.0,
        "Max": 23.0,
        "Standard deviation": 10.39
    },
    "Number of turns": {
        "Total # non-null values": 4,
        "Average": 1.0,
        "Min": 1.0,
        "Max": 1.0,
        "Standard deviation": 0.0
    },
    "Temperature": {
        "Total # non-null values": 4,
        "Average": 0.75,
        "Min": 0.5,
        "Max": 1.0,
        "Standard deviation": 0.289
    },
    "answer": {
        "unique_count": 1,
        "total_count": 4
    },
    "score": {
        "Total # non-null values": 4,
        "Average": 1.75,
        "Min": 1.0,
        "Max": 2.5,
        "Standard deviation": 0.866
    },
    "tags": {
        "unique_count": 2,
        "total_count": 6
    },
    "ok": {
        "Total # non-null values": 4,
        "Average": 0.5,
        "Min": 0.0,
        "Max": 1.0,
        "Standard deviation": 0.577
    },
    "Input length in tokens": {
        "Total # non-null values": 4,
        "Average": 11.5,
        "Min": 2.0,
        "Max": 21.0,
        "Standard deviation": 10.97
    },
    "Tokenizer": "estimate",
    "Number of unique create params": 2,
    "Number of unique user messages": 2,
    "Tool names": {
        "unique_count": 1,
        "total_count": 2
    },
    "Sampling parameters": {
        "top_p": {
            "Total # non-null values": 2,
            "Average": 0.9,
            "Min": 0.9,
            "Max": 0.9,
            "Standard deviation": 0.0
        }
    }
}"""
BLOCK = DataSet.model_validate(
    {
        "name": "sums",
        "type": "train",
        "jsonl_fpath": "data/train.jsonl",
        "num_repeats": 2,
        "license": "MIT",
        "gitlab_identifier": {"dataset_name": "sums", "version": "0.0.1", "artifact_fpath": "train.jsonl"},
        "huggingface_identifier": {"repo_id": "org/sums"},
    }
)


def observed(rows: list[dict[str, Any]]) -> Statistics:
    statistics = Statistics()
    for row in rows:
        statistics.observe(row)
    return statistics


def repeated(statistics: Statistics, times: int) -> Statistics:
    total = Statistics()
    total.add(statistics, times)
    return total


def test_a_metrics_file_is_the_golden_one_to_the_byte() -> None:
    assert metrics_text(metrics_of(BLOCK, repeated(observed(ROWS), 2))).decode() == GOLDEN


def test_the_file_is_the_same_however_the_rows_are_cut() -> None:
    rows = [json.loads(json.dumps(row)) for row in ROWS] * 3
    rows[3]["score"] = 0.1
    parts = Statistics()
    for one in (rows[:2], rows[2:3], rows[3:]):
        parts.add(observed(one))
    assert parts.to_json() == observed(rows).to_json()
    assert list(parts.to_json()) == list(observed(rows).to_json())


def test_fields_of_several_data_sets_are_merged_and_none_is_lost() -> None:
    """The peer keeps those of the last data set alone."""
    params = {"input": "x"}
    one = observed([{"responses_create_params": params, "level": 1, "kind": "a"}])
    two = observed([{"responses_create_params": params, "level": 3, "kind": "b"}])
    one.add(two)
    found = one.to_json()
    assert found["level"]["Average"] == 2.0
    assert found["kind"] == {"unique_count": 2, "total_count": 2}
    assert found["Number of unique create params"] == 1


def test_a_field_of_numbers_in_one_row_and_text_in_another_has_both_figures() -> None:
    rows = [{"responses_create_params": {"input": "x"}, "answer": one} for one in (4, "four")]
    found = observed(rows).to_json()["answer"]
    assert (found["Average"], found["Total # non-null values"], found["unique_count"]) == (4.0, 1, 1)


def test_a_field_cannot_take_the_place_of_a_figure() -> None:
    row = {"responses_create_params": {"input": "x"}, "Temperature": 3, "Tokenizer": "mine"}
    found = observed([row]).to_json()
    assert found["Temperature"]["Total # non-null values"] == 0
    assert found["Tokenizer"] == {"unique_count": 1, "total_count": 1}


def test_the_order_of_keys_makes_no_other_params() -> None:
    rows = [
        orjson.loads(raw)
        for raw in (
            b'{"responses_create_params": {"input": "x", "top_p": 1}}',
            b'{"responses_create_params": {"top_p": 1, "input": "x"}}',
        )
    ]
    assert observed(rows).to_json()["Number of unique create params"] == 1


def test_rows_that_ask_for_their_server_s_tools_count_none() -> None:
    row = {"responses_create_params": {"input": "?", "tools": "auto"}}
    assert observed([row]).tools.count == 0
