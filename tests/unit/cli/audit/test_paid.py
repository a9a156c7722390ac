"""Bodies that are not text: whatever is not a reward is found, from any side."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from gym.cli.audit.constants import constant_answers, most_frequent_gold
from gym.cli.audit.paid import take_bytes, take_surrogates
from gym.cli.audit.raw_bodies import lone_surrogates, no_utf8
from gym.cli.audit.subject import AuditSubject
from gym.http.pool import Reply
from gym.server.cases import Bench, Case
from gym.server.testing import Answered
from gym.wire import items

RIGHT = Case.model_validate(
    {
        "name": "right",
        "kind": "full_reward",
        "expected_reward": 1.0,
        "oracle": True,
        "request": {"responses_create_params": {"input": "?"}, "response": {"output": [items.message("blue")]}},
    }
)


class Answering:
    """A server that gives every body the same answer."""

    def __init__(self, status: int, body: Any) -> None:
        self.bodies: list[bytes] = []
        self._answer = Answered(status, body, Reply(status, [], b""))

    async def ask(self, case: Case, request: Any = None, *, raw: bytes = b"") -> Answered:
        self.bodies.append(raw)
        return self._answer


def subject(status: int, body: Any) -> AuditSubject:
    return AuditSubject(cast(Bench, Answering(status, body)), (RIGHT,), 0.0, "", ())


BROKEN = (500, {"error": {"kind": "resources", "message": "UnicodeEncodeError"}})
BAD_ROW = (422, {"error": {"kind": "row", "message": "body: Invalid JSON"}})
NOTHING = (200, {"reward": 0.0})
PAID = (200, {"reward": 1.0})


@pytest.mark.parametrize(("answer", "passed"), [(BROKEN, False), (BAD_ROW, False), (NOTHING, True), (PAID, False)])
async def test_lone_surrogates_have_to_get_a_reward_of_nothing(answer: tuple[int, Any], passed: bool) -> None:
    assert (await take_surrogates(subject(*answer))).passed is passed


@pytest.mark.parametrize(("answer", "passed"), [(BROKEN, False), (BAD_ROW, True), (NOTHING, True), (PAID, False)])
async def test_bytes_that_are_not_utf8_may_be_refused_as_a_bad_row(answer: tuple[int, Any], passed: bool) -> None:
    assert (await take_bytes(subject(*answer))).passed is passed


def test_the_bodies_hold_what_they_are_named_after() -> None:
    for one in lone_surrogates(RIGHT.request):
        text = json.dumps(json.loads(one.body), ensure_ascii=False)
        with pytest.raises(UnicodeEncodeError):
            text.encode()
    for one in no_utf8(RIGHT.request):
        with pytest.raises(UnicodeDecodeError):
            one.body.decode()


def test_the_most_frequent_right_answer_is_one_of_the_constants() -> None:
    rows: list[dict[str, Any]] = [
        {"expected_answer": "C"},
        {"expected_answer": "B"},
        {"expected_answer": "B"},
        {"expected_answer": ["x", "y"]},
    ]
    assert most_frequent_gold(rows) == ["B"]
    assert constant_answers(rows)["B"] == ("B", "Answer: B", r"\boxed{B}", "<answer>B</answer>")
    assert list(constant_answers([])) == ["", "A", "yes", "0", "I don't know"]
