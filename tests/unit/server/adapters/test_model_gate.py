"""What a call to the policy's URL is answered, and who is to blame where it is not."""

from __future__ import annotations

import orjson
import pytest

from gym.http.pool import Reply
from gym.server.adapters.model_gate import CallClock, is_callers, refusal
from gym.wire.pieces import join_body


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (422, b"row", True),
        (502, b"model", False),
        (504, b"timeout", False),
        (400, None, True),
        (404, None, False),
        (429, None, False),
        (500, None, False),
    ],
)
def test_what_the_model_server_refuses_is_the_callers_own(status: int, kind: bytes | None, expected: bool) -> None:
    headers = [(b"x-gym-error", kind)] if kind else []
    assert is_callers(Reply(status, headers, b"{}")) is expected


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "invalid_request_error"),
    ],
)
def test_a_refusal_can_be_read_by_both_makers_clients(status: int, kind: str) -> None:
    answer = refusal(status, "no")
    body = orjson.loads(join_body(answer.body))
    assert (body["type"], body["error"]["type"], body["error"]["message"]) == ("error", kind, "no")
    assert (answer.status, answer.headers) == (status, ((b"x-should-retry", b"false"),))


def test_calls_that_overlap_count_once() -> None:
    clock = CallClock()
    with clock.waiting():
        with clock.waiting():
            pass
        assert clock.is_waiting
    assert not clock.is_waiting
    ended = clock.seconds()
    assert ended == clock.seconds() > 0
