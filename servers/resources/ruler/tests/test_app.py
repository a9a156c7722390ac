"""ruler on a real socket, and as pure functions: which strings an answer holds."""

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
    outcomes = await run_cases(load_app(HERE / "app.py"), "ruler", {}, cases)
    assert not [one for one in outcomes if not one.passed]
    assert not list(missing_kinds(cases))


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(fields: dict[str, Any]) -> None:
    fuzz_verify(
        load_app(HERE / "app.py").configured(fields),
        ROWS,
        texts=["1234567", "ingrid holm"],
        values={"subset": st.sampled_from(["qa_1", "vt", ""]), "outputs": st.lists(st.text(max_size=3), max_size=3)},
    )


async def test_metrics_are_told_for_each_subset() -> None:
    replies = [
        {"_ng_task_index": 0, "reward": 1.0, "subset": "vt"},
        {"_ng_task_index": 1, "reward": 0.5, "subset": "cwe"},
    ]
    async with running(load_app(HERE / "app.py")) as url, Caller(url) as caller:
        told = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
    assert told["pass@1/accuracy"] == 75.0
    assert told["vt/pass@1/accuracy"] == 100.0
    assert told["cwe/pass@1/accuracy"] == 50.0


@pytest.mark.parametrize("wanted", ["all", "beginning", "end"])
async def test_a_prompt_that_is_handed_back_finds_nothing(wanted: str) -> None:
    prompt = ROWS[0]["responses_create_params"]["input"][0]["content"]
    parts = {"all": prompt, "beginning": prompt[:-300], "end": prompt[300:].upper()}
    body = ROWS[0] | {"response": response([message(parts[wanted])], model="m")}
    async with running(load_app(HERE / "app.py")) as url, Caller(url) as caller:
        told = (await caller.post("/verify", body)).body
    assert (told["reward"], told["reason"]) == (0.0, "the answer repeats the prompt")
