"""A scorer: the library's own code runs in workers, and each way it ends has its own meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.server.adapters.scorer import Scorer
from gym.server.testing import Caller, running
from gym.wire import items

SCORING = """
class BadRow(Exception): ...
class BadAnswer(Exception): ...

def score(answer, row):
    if answer == "loop":
        while True: pass
    if answer == "crash":
        raise ZeroDivisionError("by the library")
    if answer == "unreadable":
        raise BadAnswer("that cannot be read")
    if answer == "nan":
        return float("nan")
    if row.get("expected") is None:
        raise BadRow("expected: a text is needed")
    right = answer == row["expected"]
    return {"reward": float(right), "parts": 2} if answer == "dict" else right
"""


@pytest.fixture
def library(tmp_path: Path) -> type[Scorer]:
    (tmp_path / "scoring.py").write_text(SCORING, "utf-8")

    class Exact(Scorer):
        """Of a folder of its own."""

    Exact.here = tmp_path
    return Exact


async def score(library: type[Scorer], text: str, row: dict[str, Any] | None = None, **fields: Any) -> Any:
    body = {"responses_create_params": {"input": "?"}, **({"expected": "7"} if row is None else row)}
    async with running(library.app(fields, name="exact")) as url, Caller(url) as caller:
        return (await caller.post("/verify", {**body, "response": {"output": [items.message(text)]}})).body


async def test_an_answer_is_scored_as_the_configuration_finds_it(library: type[Scorer]) -> None:
    right = await score(library, r"so \boxed{7}", answer={"take": "boxed"})
    assert (right["reward"], right["extracted_answer"]) == (1.0, "7")
    assert (await score(library, "8"))["reward"] == 0.0
    missing = await score(library, "7", answer={"take": "boxed"})
    assert missing["reward"] == 0.0
    assert "Write it inside" in missing["reason"]
    more = await score(library, "dict")
    assert (more["reward"], more["parts"]) == (0.0, 2)


async def test_what_the_policy_can_cause_is_a_reward(library: type[Scorer]) -> None:
    assert (await score(library, "unreadable"))["reason"] == "that cannot be read"
    slow = await score(library, "loop", scoring_seconds=0.3)
    assert (slow["reward"], slow["library_error"]) == (0.0, "timeout")


async def test_what_it_cannot_cause_is_a_failure(library: type[Scorer]) -> None:
    for text, row, kind, said in (
        ("crash", None, "resources", "ZeroDivisionError"),
        ("nan", None, "resources", "returned the reward nan"),
        ("7", {}, "row", "expected: a text is needed"),
    ):
        error = (await score(library, text, row))["error"]
        assert error["kind"] == kind
        assert said in error["message"]
