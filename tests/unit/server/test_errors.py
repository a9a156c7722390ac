"""What an author's code raised, as the failure contract says it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import BaseModel, ValidationError

from gym.server.errors import error_text, error_to_failure, validation_detail, validation_message
from gym.server.serve import load_app
from gym.wire.failures import RolloutError


class Inner(BaseModel):
    count: int


class Outer(BaseModel):
    inner: Inner
    name: str


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({"inner": {"count": "many"}})
    return caught.value


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 (a traceback of its own is what the test needs)
        return caught


def test_a_failure_passes_on_as_it_is_and_gets_our_name_when_it_has_none() -> None:
    failure = RolloutError("timeout", "late", server="deep")
    assert error_to_failure(failure, server="near", role="agent") is failure
    assert failure.server == "deep"
    assert error_to_failure(RolloutError("timeout", "late"), server="near", role="agent").server == "near"


def test_a_bad_body_is_the_rows_fault_and_names_every_place() -> None:
    failure = error_to_failure(invalid(), server="s", role="resources")
    assert (failure.kind, failure.status, failure.retryable) == ("row", 422, False)
    assert failure.message == validation_message(invalid())
    assert failure.message.startswith("inner.count: Input should be a valid integer")
    assert "; name: Field required" in failure.message


def test_a_bug_is_the_servers_and_names_the_authors_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "gym.server"):
        failure = error_to_failure(raised(KeyError("x")), server="s", role="resources", rollout_id="7-1")
    assert (failure.kind, failure.status, failure.retryable) == ("resources", 500, False)
    assert failure.message.startswith("KeyError: 'x' (test_errors.py:")
    assert "in raised: raise error)" in failure.message
    assert "rollout 7-1: KeyError" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("x"), r"KeyError: 'x' \(test_errors.py:\d+ in raised\)"),
        (TimeoutError("slow"), r"slow \(test_errors.py:\d+ in raised\)"),
    ],
)
def test_what_a_policy_reads_names_the_line_without_its_code(
    error: Exception, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    failure = error_to_failure(raised(error), server="s", role="resources", code=False)
    assert re.fullmatch(said, failure.message)
    assert "raise error" in caplog.text


async def test_a_next_that_finds_nothing_names_the_authors_line(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text("async def verify():\n    return next(one for one in ())\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)  # noqa: S102 (a file of an author)
    with pytest.raises(RuntimeError) as caught:
        await names["verify"]()
    ours = caught.value.with_traceback(None)  # as in a server: the caller's own frames are of the SDK
    said = "RuntimeError: coroutine raised StopIteration (app.py:2 in verify: return next(one for one in ()))"
    assert error_text(ours) == said


def test_a_broken_connection_may_be_tried_again() -> None:
    assert error_to_failure(raised(ConnectionResetError("gone")), server="s", role="resources").retryable is True


def test_a_call_that_took_too_long_is_a_timeout() -> None:
    failure = error_to_failure(TimeoutError(), server="s", role="resources")
    assert (failure.kind, failure.status, failure.retryable) == ("timeout", 504, True)
    assert failure.message == "a call took too long"


def test_a_timeout_of_the_authors_own_names_its_line_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "gym.server"):
        failure = error_to_failure(raised(TimeoutError("db slow")), server="s", role="resources", rollout_id="7-1")
    assert (failure.kind, failure.status, failure.retryable) == ("timeout", 504, True)
    assert failure.message.startswith("db slow (test_errors.py:")
    assert failure.message.endswith("in raised: raise error)")
    assert "rollout 7-1: db slow (test_errors.py:" in caplog.text


async def test_a_timeout_inside_a_library_names_the_line_that_called_it() -> None:
    with pytest.raises(TimeoutError) as caught:
        await asyncio.wait_for(asyncio.Event().wait(), 0)
    failure = error_to_failure(caught.value, server="s", role="resources")
    assert failure.message.startswith("a call took too long (test_errors.py:")


def test_a_role_that_is_not_a_kind_of_failure_counts_as_agent() -> None:
    assert error_to_failure(raised(ValueError("x")), server="s", role="odd").kind == "agent"


def test_a_message_of_many_lines_is_shown_by_its_first() -> None:
    assert error_text(raised(ValueError("first\nsecond"))).startswith("ValueError: first (test_errors.py:")
    assert error_text(raised(ValueError())).startswith("ValueError (test_errors.py:")


def test_a_message_with_all_that_a_policy_wrote_is_cut() -> None:
    text = error_text(raised(ValueError("x" * 1_000_000)))
    assert text.startswith("ValueError: xxx")
    assert "x… (test_errors.py:" in text
    assert len(text) < 1_200


@pytest.mark.parametrize("breaks", [ValueError, SystemExit])
def test_an_error_whose_text_breaks_is_named_by_its_type(breaks: type[BaseException]) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise breaks

    failure = error_to_failure(raised(Broken()), server="s", role="resources")
    assert failure.message.startswith("Broken (test_errors.py:")


def test_an_error_inside_a_library_names_the_line_that_called_it(tmp_path: Path) -> None:
    source = tmp_path / "app.py"
    source.write_text("import json\ndef verify(text):\n    return json.loads(text)\napp = verify\n")
    with pytest.raises(json.JSONDecodeError) as caught:
        load_app(source)("{")
    assert "(app.py:3 in verify: return json.loads(text))" in error_text(caught.value)


def test_an_error_that_was_never_raised_has_no_line() -> None:
    assert error_text(ValueError("x")) == "ValueError: x"


def test_a_bad_argument_reads_as_models_have_learnt_to_read_it() -> None:
    detail: list[dict[str, Any]] = orjson.loads(validation_detail(invalid()))["detail"]
    assert [one["loc"] for one in detail] == [["body", "inner", "count"], ["body", "name"]]
    assert detail[1]["msg"] == "Field required"
    assert "url" not in detail[0]


@pytest.mark.parametrize(("given", "expected"), [(str(2**70), 2**70), ("1e999", None), ("NaN", None)])
def test_a_bad_argument_is_reported_whatever_number_it_is(given: str, expected: int | None) -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate_json(f'{{"inner": {{"count": 1}}, "name": {given}}}')
    assert json.loads(validation_detail(caught.value))["detail"][0]["input"] == expected


@pytest.mark.parametrize("status", [404, 409, 410, 429])
def test_a_sandbox_that_is_gone_is_never_the_rows_fault(status: int) -> None:
    gone = RolloutError("sandbox", "sandbox sb1 is gone", server="sandbox", retryable=True, status=status)
    failure = error_to_failure(gone, server="coder", role="resources")
    assert (failure.kind, failure.server, failure.retryable, failure.status) == ("sandbox", "sandbox", True, 500)


def test_what_a_row_asks_for_in_vain_stays_the_rows_fault() -> None:
    refused = RolloutError("row", "image: not granted", retryable=False, status=403)
    assert error_to_failure(refused, server="coder", role="resources").status == 403
