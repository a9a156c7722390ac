"""Where the gold stands, what is as good, what is nearly as good: by its form."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from gym.cli.audit.audit_programs import hollow_programs, rename_local
from gym.cli.audit.gold import Gold, find_gold, form_of
from gym.cli.audit.harmless import harmless_changes
from gym.cli.audit.near_misses import near_misses
from gym.cli.audit.wrong import wrong_values
from gym.wire import items


def request(text: str, **row: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "?"}, "response": {"output": [items.message(text)]}, **row}


def gold_of(text: str, **row: Any) -> Gold:
    found = find_gold(request(text, **row))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "marker", "value", "form"),
    [
        (r"First \boxed{1}, then \boxed{\frac{1}{2}}.", "box", r"\frac{1}{2}", "expression"),
        ("So it is <answer> B </answer>.", "tag", "B", "letter"),
        ("I walk.\n**Final Answer:** [a1, b2]", "label", "[a1, b2]", "list"),
        ("Every step follows.\nJudgement: Yes", "label", "Yes", "yes or no"),
        ("It does not converge. Judgement: No", "label", "No", "yes or no"),
        ('Published later: {"answer": "1954"}', "field", "1954", "number"),
        ('```json\n{"answer": "Danube"}\n```', "field", "Danube", "text"),
        ("Here:\n```python\nprint(1)\n```\n", "fence", "print(1)\n", "code"),
        ('Here it is:\n[{"id": 0}]', "whole", '[{"id": 0}]', "JSON"),
        ("It was in 1971.", "none", "1971", "number"),
    ],
)
def test_where_the_gold_stands(text: str, marker: str, value: str, form: str) -> None:
    gold = gold_of(text, expected_answer="1971")
    assert (gold.marker, gold.value, gold.form) == (marker, value, form)


def test_prose_without_the_rows_gold_has_none() -> None:
    assert find_gold(request("It is less dense.", expected_answer="Ice floats")) is None
    assert find_gold(request("", expected_answer="1")) is None
    assert find_gold(request("It was in 19710.", expected_answer="1971")) is None


@pytest.mark.parametrize("said", [[], [items.message("Done.")]], ids=["silent", "done"])
def test_calls_are_the_gold_where_no_message_says_it(said: list[dict[str, Any]]) -> None:
    asked = request("")
    asked["response"]["output"] = [items.function_call("book", '{"seat": 3, "name": "x"}'), *said]
    gold = find_gold(asked)
    assert gold is not None
    assert gold.form == "calls"
    output = asked["response"]["output"]
    names = {one.name for one in near_misses(gold, output)}
    assert names == {"wrong tool", "wrong value", "broken field", "list of guesses", "both options"}
    changed = [
        item["arguments"]
        for one in harmless_changes(gold, output)
        for item in one.output
        if item["type"] == "function_call"
    ]
    assert all(json.loads(one) == {"seat": 3, "name": "x"} for one in changed)
    assert '{"name": "x", "seat": 3}' in changed


@pytest.mark.parametrize(
    "text", [r"\boxed{1234567}", r"\boxed{B}", "Answer: yes", "<answer>[1, 2]</answer>", r"\boxed{x}"]
)
def test_a_wrong_value_has_the_golds_form_and_is_another(text: str) -> None:
    gold = gold_of(text)
    wrong = wrong_values(gold)
    assert wrong
    assert gold.value not in wrong
    assert {form_of(one) for one in wrong} == {gold.form}


def test_what_applies_follows_from_the_form() -> None:
    def names(text: str, **row: Any) -> set[str]:
        return {one.name for one in harmless_changes(gold_of(text, **row), request(text)["response"]["output"])}

    assert "number format" in names(r"\boxed{54321}")
    assert "number format" not in names(r"\boxed{1971}"), "it may be a year"
    assert "number format" not in names(r"\boxed{00481}"), "it may be a code"
    assert "keys in another order" in names('Here:\n{"a": 1, "b": 2}')
    assert "rewritten code" in names("```python\ntotal = 1\nprint(total)\n```")
    assert names("blue", expected_answer="blue") == {"CRLF", "blanks at the end", "thinking aloud"}, "the text is all"


def test_a_renamed_program_means_the_same_and_a_hollow_one_does_nothing() -> None:
    code = "def add(one, two):\n    total = one + two\n    return total\n"
    renamed = rename_local(code)
    assert renamed == code.replace("total", "renamed_value")
    found: dict[str, Any] = {}
    exec(renamed, found)
    assert found["add"](1, 2) == 3
    assert rename_local("x = 1\nprint(f'{x} x')\n") == "", "a text that names it may depend on it"
    for hollow in hollow_programs(code, "python"):
        ast.parse(hollow)
    assert any("def add" in one for one in hollow_programs(code, "python"))
