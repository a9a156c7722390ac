"""A card: figures of all parts together, fields with their types, and nothing in it that breaks out of its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gym.data.data_card import About, Part, make_card
from gym.data.portrait import Portrait, portray
from gym.errors import ConfigError
from tests.support.deep_json import nested
from tests.support.row_lines import lines_of_rows


def row(text: str, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": [{"role": "user", "content": text}]}, **fields}


def portrait(*rows: dict[str, Any]) -> Portrait:
    return portray(lines_of_rows(rows))


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def test_a_card_tells_licence_source_splits_figures_fields_and_how_to_load_it() -> None:
    train = portrait(row("one two", answer=1), row("one two", answer="x", extra=None))
    test = portrait(row("three", answer=2.5))
    about = About("sums", "Sums of numbers", "CC BY-SA 4.0", "org/sums", "sums")
    card = make_card(about, [Part("train", "train.jsonl", train), Part("test", "test.jsonl", test)], {0.0: 1, 1.0: 2})
    head = yaml.safe_load(card.text.split("---")[1])
    files = [{"split": "train", "path": "train.jsonl"}, {"split": "test", "path": "test.jsonl"}]
    assert head.pop("configs") == [{"config_name": "default", "data_files": files}]
    assert head == {"pretty_name": "sums", "license": "cc-by-sa-4.0", "size_categories": ["n<1K"]}
    assert "| Licence | CC BY-SA 4.0 |" in card.text
    assert "| Source | org/sums |" in card.text
    assert "| train | 2 | `train.jsonl` |" in card.text
    assert "| Different questions | 2 |" in card.text
    assert "| user messages of a row | 1 | 1 | 1 | 0 |" in card.text
    assert "| `answer` | number or text | 100% | `1` |" in card.text
    assert "| `extra` | null | 33% |  |" in card.text
    assert "gym up sums\ngym rollouts train.jsonl -o rollouts.jsonl" in card.text
    assert set(card.figures) == {"tokens.svg", "turns.svg", "rewards.svg"}
    assert all(f"(figures/{name})" in card.text for name in card.figures)
    assert "3 rollouts" in card.figures["rewards.svg"]


def test_a_split_has_a_name_that_a_hub_takes_and_its_place_below_the_card() -> None:
    part = Part("hard-1", "data/hard-1.jsonl", portrait(row("a")), place="data/hard-1.jsonl")
    assert part.entry == {"split": "hard_1", "path": "data/hard-1.jsonl"}


def test_without_rollouts_there_is_no_plot_of_rewards_and_a_licence_of_ones_own_is_named() -> None:
    card = make_card(About("x", licence="Our: Licence"), [Part("x", "x", portrait(row("a")))])
    assert "rewards.svg" not in card.figures
    assert yaml.safe_load(card.text.split("---")[1])["license_name"] == "Our: Licence"
    assert "license: unknown" in make_card(About("x"), [Part("x", "x", portrait(row("a")))]).text


def test_what_rows_hold_stays_in_its_cell_and_a_key_is_not_shown() -> None:
    evil = "a | b\n| c ` d <script>" + "e" * 500
    card = make_card(
        About("<b> | x\ny", evil), [Part("p|q", "p`q", portrait(row("a", evil=evil, policy_api_key="sk-secret")))]
    )
    assert "sk-secret" not in card.text
    assert "<b>" not in card.text.split("---", 2)[2]
    assert "<script>" not in card.text.replace("`` a \\| b \\| c ` d <script>", "")
    [field] = lines(card.text, "| `evil`")
    assert field.replace("\\|", "").count("|") == 5
    assert len(field) < 150


def test_a_line_that_is_not_a_row_is_reported() -> None:
    with pytest.raises(ConfigError, match="rows:2: responses_create_params: is missing"):
        portray(lines_of_rows([row("a"), {}]))


def test_a_row_that_is_nested_too_deep_to_be_written_is_described() -> None:
    deep = nested(300)
    line = json.dumps({"responses_create_params": {"input": deep, "tools": [{"parameters": deep}]}, "more": [deep]})
    card = make_card(About("deep"), [Part("train", "train.jsonl", portray(lines_of_rows([line])))])
    assert "| `more` | list | 100% |" in card.text
