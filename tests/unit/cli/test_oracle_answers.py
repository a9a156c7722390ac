"""`--model oracle`: the oracle cases of a stack's environments, as the scripted model takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.cli.oracle_answers import add_oracle_answers, answer_of
from gym.cli.stack_request import load_named
from gym.config.model import Instance, StackConfig
from gym.errors import UserError
from gym.server.cases import Case
from gym.wire import items

MODEL = Instance(name="policy_model", type="responses_api_models", implementation="scripted", fields={"oracle": True})


def test_the_policy_of_a_named_stack_gets_the_answers_of_its_environments() -> None:
    stack = load_named(["simple_weather"], model="oracle", environ={})
    (policy,) = [one for one in stack.instances if one.type == "responses_api_models"]
    answers = policy.fields["oracle_answers"]
    assert policy.name == "policy_model"
    assert len(answers) >= 5
    assert answers[0]["turns"][0][0]["name"] == "get_weather"
    assert any("simple_weather by heart" in line for line in stack.notices)


def test_other_models_get_none() -> None:
    stack = load_named(["simple_weather"], model="scripted", environ={})
    assert not any("oracle_answers" in one.fields for one in stack.instances)


def test_a_stack_without_an_oracle_case_is_refused(tmp_path: Path) -> None:
    bare = Instance(name="bare", type="resources_servers", implementation="bare", fields={}, directory=tmp_path)
    with pytest.raises(UserError, match="replays oracle cases, and bare has none") as caught:
        add_oracle_answers(StackConfig(instances=(bare, MODEL)))
    assert "gym case add" in caught.value.hint


def test_tool_outputs_part_the_turns_and_steps_become_calls() -> None:
    said = [
        items.function_call("a", "{}", call_id="x"),
        items.function_call_output("x", "1"),
        items.message("done"),
    ]
    row = {"responses_create_params": {"input": "go"}}
    given = {"name": "n", "kind": "full_reward", "expected_reward": 1.0, "oracle": True}
    case = Case.model_validate({**given, "request": {**row, "response": {"output": said}}})
    answer = answer_of(case)
    assert [[one["type"] for one in turn] for turn in answer["turns"]] == [["function_call"], ["message"]]
    assert answer["turns"][0][0]["call_id"] == "call_1"
    steps = [{"tool": "a"}, {"tool": "b", "arguments": {"n": 1}}]
    stepped = Case.model_validate({**given, "request": {**row, "response": {"output": said[2:]}}, "steps": steps})
    names = [turn[0].get("name") for turn in answer_of(stepped)["turns"]]
    assert names == ["a", "b", None]
    talk = [items.message("ok"), items.message("so"), items.function_call("a", "{}", call_id="x")]
    talked = Case.model_validate({**given, "request": {**row, "response": {"output": talk}}})
    kinds = [[one["type"] for one in turn] for turn in answer_of(talked)["turns"]]
    assert kinds == [["message"], ["message", "function_call"]]
