"""ruler on a real socket, and as pure functions: which strings an answer holds."""

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
        texts=["1234567", "ingrid holm"],
        values={"subset": st.sampled_from(["qa_1", "vt", ""]), "outputs": st.lists(st.text(max_size=3), max_size=3)},
    )


async def test_metrics_are_given_for_each_subset(app: ServerApp) -> None:
    replies = [
        {"_ng_task_index": 0, "reward": 1.0, "subset": "vt"},
        {"_ng_task_index": 1, "reward": 0.5, "subset": "cwe"},
    ]
    async with running(app) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
    assert metrics["pass@1/accuracy"] == 75.0
    assert metrics["vt/pass@1/accuracy"] == 100.0
    assert metrics["cwe/pass@1/accuracy"] == 50.0


@pytest.mark.parametrize("wanted", ["all", "beginning", "end"])
async def test_a_prompt_that_is_handed_back_finds_nothing(app: ServerApp, rows: Rows, wanted: str) -> None:
    prompt = rows[0]["responses_create_params"]["input"][0]["content"]
    parts = {"all": prompt, "beginning": prompt[:-300], "end": prompt[300:].upper()}
    body = rows[0] | {"response": response([message(parts[wanted])], model="m")}
    async with running(app) as url, Caller(url) as caller:
        reply = (await caller.post("/verify", body)).body
    assert (reply["reward"], reply["reason"]) == (0.0, "the answer repeats the prompt")
