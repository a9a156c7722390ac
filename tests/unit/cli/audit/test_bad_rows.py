"""Bad rows: every field once away and once of every other type, and bodies that break the contract."""

from __future__ import annotations

from typing import Any

from gym.cli.audit.bad_rows import WRONG, bad_rows

REQUEST: dict[str, Any] = {
    "responses_create_params": {"input": "How many?"},
    "agent_ref": {"name": "an_agent"},
    "expected": "3",
    "facts": {"grade": 1},
    "response": {"output": []},
}


def test_every_field_of_the_row_is_missing_once_and_wrong_often() -> None:
    made = {one.wrong: one for one in bad_rows(REQUEST)}
    assert "expected" not in made["expected is missing"].request
    assert made["expected is -1"].request["expected"] == -1
    assert made["facts.grade is missing"].request["facts"] == {}
    assert made["facts.grade is []"].field == "facts"
    assert sum(one.field == "expected" for one in made.values()) == 1 + len(WRONG)
    assert not any(one.field == "agent_ref" for one in made.values())


def test_a_bad_row_differs_from_the_right_one_and_leaves_it_alone() -> None:
    whole = {**REQUEST, "facts": dict(REQUEST["facts"])}
    assert all(one.request != REQUEST for one in bad_rows(REQUEST))
    assert whole == REQUEST


def test_what_the_contract_forbids_has_to_be_refused() -> None:
    refused = {one.wrong for one in bad_rows(REQUEST) if one.refused}
    assert {"responses_create_params is missing", "response is {'output': None}", "input is 5"} < refused
    assert not any(one.refused for one in bad_rows(REQUEST) if one.field in ("expected", "facts", ""))


def test_few_rows_take_all_fields_away_at_once() -> None:
    few = list(bad_rows(REQUEST, few=True))
    assert not any(one.field in ("expected", "facts") for one in few)
    assert set(few[-1].request) == {"responses_create_params", "agent_ref", "response"}
