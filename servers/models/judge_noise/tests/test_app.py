"""The rehearsal judge: one verdict a question, a style a reply, over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.errors import GymError
from gym.server import ServerApp
from gym.server.judge_noise import STYLES
from gym.server.serve import load_app
from gym.server.testing import Caller, running
from gym.server.verdicts import Verdicts
from gym.wire import items

HERE = Path(__file__).resolve().parents[1]
READER = Verdicts({"A": "A", "B": "B", "C": "C"})


async def said(question: str, times: int, **fields: Any) -> list[str]:
    app = load_app(HERE / "app.py").configured(fields, name="judge_model")
    async with running(app) as url, Caller(url) as caller:
        replies = [await caller.post("/v1/responses", {"input": question}) for _ in range(times)]
    return [items.output_text(one.body["output"]) for one in replies]


async def test_a_question_gets_one_verdict_in_every_style() -> None:
    texts = await said("Answer with one letter: A, B or C.", len(STYLES))
    assert len(set(texts)) > 20
    verdicts = [READER.read(text) for text in texts]
    assert len(set(verdicts) - {None}) == 1
    assert [one is not None for one in verdicts] == [style.readable for style in STYLES.values()]


async def test_other_questions_get_other_verdicts() -> None:
    texts = [(await said(f"{number}: A, B or C.", 1, styles=["bare"]))[0] for number in range(20)]
    assert set(texts) == {"A", "B", "C"}


async def test_the_styles_can_be_chosen_and_a_wrong_name_is_refused(app: ServerApp) -> None:
    assert await said("[[A=B]] or [[A!=B]]", 1, styles=["refusal"]) == [STYLES["refusal"].text]
    app = app.configured({"styles": ["loud"]}, name="judge_model")
    with pytest.raises(GymError, match="there is no loud"):
        await app.start()


async def test_unreadable_styles_can_be_left_out() -> None:
    count = sum(style.readable for style in STYLES.values())
    texts = await said("A, B or C.", count, readable_only=True)
    assert all(READER.read(text) for text in texts)
