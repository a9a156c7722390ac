"""mrcr on a real socket, and as pure functions: what stands behind the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from gym.server.cases import CASES, load_cases, missing_kinds, run_cases
from gym.server.fuzz import fuzz_verify
from gym.server.serve import load_app
from gym.server.testing import Caller, running
from gym.wire.items import message, response

HERE = Path(__file__).parents[1]
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "data" / "example.jsonl").read_text("utf-8").splitlines()
]


async def test_every_case_ends_as_its_line_says() -> None:
    cases = load_cases(HERE / CASES)
    outcomes = await run_cases(load_app(HERE / "app.py"), "mrcr", {}, cases)
    assert not [one for one in outcomes if not one.passed]
    assert not list(missing_kinds(cases))


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(fields: dict[str, Any]) -> None:
    fuzz_verify(
        load_app(HERE / "app.py").configured(fields),
        ROWS,
        values={"random_string_to_prepend": st.sampled_from(["", "yes", "Answer"])},
        examples=80,
    )


async def test_metrics_are_told_for_each_number_of_needles() -> None:
    replies = [
        {"_ng_task_index": 0, "reward": 1.0, "n_needles": 2},
        {"_ng_task_index": 1, "reward": 0.5, "n_needles": 8},
    ]
    async with running(load_app(HERE / "app.py")) as url, Caller(url) as caller:
        told = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
    assert told["pass@1/accuracy"] == 75.0
    assert told["8/pass@1/accuracy"] == 50.0


async def test_another_needle_is_worth_less_than_the_right_one() -> None:
    row = ROWS[0]
    code, turns = row["random_string_to_prepend"], row["responses_create_params"]["input"]
    said = [code + one["content"] for one in turns if one["role"] == "assistant"]
    async with running(load_app(HERE / "app.py")) as url, Caller(url) as caller:
        rewards = [
            (await caller.post("/verify", row | {"response": response([message(one)], model="m")})).body["reward"]
            for one in said
        ]
    assert [one == 1.0 for one in rewards] == [one == row["expected_answer"] for one in said]
