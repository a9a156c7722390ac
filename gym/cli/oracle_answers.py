"""What a policy that knows the oracle cases of a stack's environments says: given to a scripted model with `oracle`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gym.config import StackConfig
from gym.config.model import Instance
from gym.errors import UserError
from gym.server.cases import CASES, Case, load_cases
from gym.wire.items import Item
from gym.wire.server_types import MODELS, RESOURCES

MADE = ("function_call", "message", "reasoning")


def wants_oracle(one: Instance) -> bool:
    return one.type == MODELS and one.fields.get("oracle") is True


def add_oracle_answers(stack: StackConfig) -> StackConfig:
    """The stack with the answers in its scripted models, and a notice of whose they are."""
    found = {one.name: answers for one in stack.instances if (answers := _answers_of(one))}
    if not found:
        named = [one.name for one in stack.instances if one.type == RESOURCES]
        raise UserError(
            f"`oracle` replays oracle cases, and {' and '.join(named) or 'this stack'} has none.",
            'Mark cases in data/verifier_cases.jsonl with "oracle": true (gym case add … --oracle makes one of a '
            "rollout), or take another model.",
        )
    counts = ", ".join(f"{len(answers)} of {name}" for name, answers in found.items())
    answers = [answer for some in found.values() for answer in some]
    filled = tuple(_with(one, answers) if wants_oracle(one) else one for one in stack.instances)
    notice = f"The policy knows {counts} by heart (oracle cases); to other rows it says what `scripted` would."
    return stack.model_copy(update={"instances": filled, "notices": (*stack.notices, notice)})


def answer_of(case: Case) -> dict[str, Any]:
    """A line for the scripted model: its turns, with the outputs of tools left to the tools.

    A message ends what a model says at a time: a second one is its next turn, whatever stood between them."""
    turns: list[list[Item]] = []
    speaking = False
    for item in _model_items(case):
        made = item.get("type", "message") in MADE and item.get("role", "assistant") == "assistant"
        if made and (not speaking or _is_message(turns[-1][-1]) and item.get("type") != "function_call"):
            turns.append([])
        if made:
            calls = sum(one["type"] == "function_call" for turn in turns for one in turn)
            fresh = {"call_id": f"call_{calls + 1}"} if item.get("type") == "function_call" else {}
            turns[-1].append({"type": "message", **item, **fresh})
        speaking = made
    asked = case.request["responses_create_params"]["input"]
    return {"input": asked, "turns": turns, "judge": list(case.judge)}


def _is_message(item: Item) -> bool:
    return str(item.get("type", "message")) == "message"


def _with(one: Instance, answers: list[dict[str, Any]]) -> Instance:
    return one.model_copy(update={"fields": {**one.fields, "oracle_answers": answers}})


def _answers_of(one: Instance) -> list[dict[str, Any]]:
    """Cases with a configuration of their own are left out: this instance has another."""
    if one.type != RESOURCES or one.directory is None or not (one.directory / CASES).is_file():
        return []
    cases = [case for case in load_cases(one.directory / CASES) if case.oracle and not case.config]
    return [answer_of(case) for case in cases if "response" in case.request]


def _model_items(case: Case) -> Iterator[Item]:
    """The steps of a case are calls that its response may leave out."""
    output = case.request["response"]["output"]
    if not any(item.get("type") == "function_call" for item in output):
        for step in case.steps:
            yield {"type": "function_call", "name": step.tool, "arguments": json.dumps(step.arguments)}
            yield {"type": "function_call_output"}
    yield from output
