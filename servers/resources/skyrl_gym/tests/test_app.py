"""skyrl_gym over HTTP, with the real package: one turn, several turns, what may not be played."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from app import SkyRLGym
from generate import SkyRLRows

from gym.server.fuzz import fuzz_verify
from gym.server.generating import generate, prove
from gym.server.testing import Caller, Rows, running
from gym.wire.items import message


@pytest_asyncio.fixture
async def caller() -> AsyncIterator[Caller]:
    async with running(SkyRLGym.app({}, name="skyrl_gym")) as url, Caller(url) as one:
        yield one


async def act(caller: Caller, row: dict[str, Any], text: str) -> dict[str, Any]:
    body: dict[str, Any] = (await caller.post("/step", {**row, "response": {"output": [message(text)]}})).body
    return body


async def test_several_turns_are_asked_for_until_the_answer_is_right(caller: Caller, rows: Rows) -> None:
    row = next(one for one in rows if one["env_class"] == "gsm8k_multi_turn")
    assert (await caller.post("/reset", row)).body["observation"] == []
    first = await act(caller, row, "#### 1")
    assert first["reward"] == pytest.approx(0.2 / 3)
    assert "####" in first["observation"][0]["content"]
    last = await act(caller, row, f"#### {row['reward_spec']['ground_truth']}")
    assert (last["reward"], last["terminated"]) == (1.0, True)


async def test_what_runs_the_policys_code_is_refused_unless_it_is_listed(caller: Caller, rows: Rows) -> None:
    error = (await caller.post("/reset", {**rows[0], "env_class": "lcb"})).body["error"]
    assert (error["kind"], "runs what the policy writes" in error["message"]) == ("row", True)


async def test_made_rows_are_paid_for_their_answer_and_not_for_none() -> None:
    for task in SkyRLRows.tasks:
        made = generate(SkyRLRows(), 20, seed=3, split="train", difficulty="medium", tasks=[task])
        proof = await prove(SkyRLGym.app({}, name="skyrl_gym"), made, steps=False)
        assert proof.holds, proof


def test_hostile_texts_are_rewards(rows: Rows) -> None:
    texts = ("#### 29", "#### -0", "#### ,,,", "Answer: \\frac{", "Answer: \\boxed{", "\\text{}$$")
    fuzz_verify(SkyRLGym.app({}, name="skyrl_gym"), rows, texts=texts, examples=60)
