"""Templates on rows: the peer's form, every missing field reported, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym.data.prompts import PromptTemplate, read_prompt, render_rows
from gym.errors import ConfigError
from tests.support.row_lines import lines_of_rows


def prompt(folder: Path, text: str) -> PromptTemplate:
    (folder / "p.yaml").write_text(text)
    return read_prompt(folder / "p.yaml")


def render(template: PromptTemplate, *rows: Any, **options: Any) -> list[dict[str, Any]]:
    return list(render_rows(lines_of_rows(rows), template, **options))


def test_system_and_user_are_filled_from_the_fields_of_the_row(tmp_path: Path) -> None:
    template = prompt(tmp_path, 'system: "In \\\\boxed{{}}."\nuser: "{question} {options[1]} {n:.1f}"\n')
    row = {"question": "Why {x}?", "options": ["a", "b"], "n": 2, "responses_create_params": {"temperature": 1}}
    [made] = render(template, row)
    assert made["responses_create_params"] == {
        "temperature": 1,
        "input": [{"role": "system", "content": "In \\boxed{}."}, {"role": "user", "content": "Why {x}? b 2.0"}],
    }
    assert made["prompt_config_used"] == str(tmp_path / "p.yaml")
    assert made["question"] == "Why {x}?"


def test_without_a_system_text_there_is_one_message(tmp_path: Path) -> None:
    [made] = render(prompt(tmp_path, 'user: "{q}"\n'), {"q": "hi"})
    assert made["responses_create_params"]["input"] == [{"role": "user", "content": "hi"}]


def test_every_row_that_lacks_a_field_is_reported_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        render(prompt(tmp_path, 'user: "{question}"\n'), {"question": "a"}, {"qestion": "b"}, {"question": None})
    lines = [(one.line, one.key, one.what.split(",")[0]) for one in raised.value.problems]
    assert lines == [(2, "question", "is missing"), (3, "question", "is null")]
    assert "did you mean qestion?" in str(raised.value)


def test_a_row_that_is_nested_too_deep_is_reported_with_its_line(tmp_path: Path) -> None:
    deep = b'{"q": "hi", "more": ' + b"[" * 300 + b"]" * 300 + b"}"
    with pytest.raises(ConfigError, match="is nested deeper than 200 levels") as caught:
        render(prompt(tmp_path, 'user: "{q}"\n'), {"q": "hi"}, deep)
    assert caught.value.problems[0].line == 2


def test_a_row_with_an_input_is_reported_unless_it_may_be_replaced(tmp_path: Path) -> None:
    template, row = prompt(tmp_path, 'user: "{q}"\n'), {"q": "new", "responses_create_params": {"input": "old"}}
    with pytest.raises(ConfigError, match=r"rows:1: responses_create_params.input: is there already"):
        render(template, row)
    assert render(template, row, replace=True)[0]["responses_create_params"]["input"][0]["content"] == "new"


def test_integers_of_any_size_stay_what_they_are(tmp_path: Path) -> None:
    [made] = render(prompt(tmp_path, 'user: "{n}"\n'), json.dumps({"n": 10**30}))
    assert made["n"] == 10**30
    assert made["responses_create_params"]["input"][0]["content"] == str(10**30)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("system: hello\n", "user: is missing"),
        ("user: {question}\n", "quotes"),
        ('system: x\nuser: "{a"\n', "p.yaml:2: user: .*written twice"),
        ('user: "{a.__class__}"\n', "names no field"),
        ('user: "{}"\n', "names no field"),
    ],
)
def test_a_template_that_is_wrong_is_reported_before_any_row_is_read(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        prompt(tmp_path, text)


def test_a_key_that_means_nothing_here_is_named(tmp_path: Path) -> None:
    assert prompt(tmp_path, 'user: "{q}"\nfew_shot: x\n').unused == ("few_shot",)


def test_a_value_that_the_template_cannot_format_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rows:1: .* does not fit the row"):
        render(prompt(tmp_path, 'user: "{q[key]}"\n'), {"q": {"other": 1}})
