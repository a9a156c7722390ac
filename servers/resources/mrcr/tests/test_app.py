"""mrcr on a real socket, and as pure functions: what stands behind the code."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Caller, Rows, running
from gym.wire.items import message, response


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured(fields),
        rows,
        values={"random_string_to_prepend": st.sampled_from(["", "yes", "Answer"])},
        examples=80,
    )


async def test_metrics_are_given_for_each_number_of_needles(app: ServerApp) -> None:
    replies = [
        {"_ng_task_index": 0, "reward": 1.0, "n_needles": 2},
        {"_ng_task_index": 1, "reward": 0.5, "n_needles": 8},
    ]
    async with running(app) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
    assert metrics["pass@1/accuracy"] == 75.0
    assert metrics["8/pass@1/accuracy"] == 50.0


async def test_another_needle_is_worth_less_than_the_right_one(app: ServerApp, rows: Rows) -> None:
    row = rows[0]
    code, turns = row["random_string_to_prepend"], row["responses_create_params"]["input"]
    said = [code + one["content"] for one in turns if one["role"] == "assistant"]
    async with running(app) as url, Caller(url) as caller:
        rewards = [
            (await caller.post("/verify", row | {"response": response([message(one)], model="m")})).body["reward"]
            for one in said
        ]
    assert [one == 1.0 for one in rewards] == [one == row["expected_answer"] for one in said]
