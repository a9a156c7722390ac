"""What each call of a loop took, as a header that stays short."""

from __future__ import annotations

import pytest

from gym.wire.step_times import MAX_HEADER, StepTime, read_steps, usage_tokens, write_steps


def test_steps_come_back_as_a_stamp_has_them() -> None:
    steps = [StepTime("model", 0.2942, (40, 176)), StepTime("tools", 57.0001), StepTime("model", 0.02)]
    assert write_steps(steps) == b"model 294.2 40/176, tools 57000.1, model 20.0"
    assert read_steps(write_steps(steps)) == [["model", 294.2, 40, 176], ["tools", 57000.1], ["model", 20.0]]
    assert read_steps(write_steps([])) == []


def test_a_long_loop_says_how_many_calls_it_left_out() -> None:
    header = write_steps(StepTime("model", 1.0, (1000, 100)) for _ in range(10_000))
    assert len(header) < MAX_HEADER + 30
    found = read_steps(header)
    assert found[-1][0] == "omitted"
    assert found[-1][1] + len(found) - 1 == 10_000


@pytest.mark.parametrize("value", [b"", b"model", b"model x", b"model 1 2/x", b",,", b"\xff\xfe \xff", b"a b c d e"])
def test_what_no_agent_of_ours_writes_is_passed_over(value: bytes) -> None:
    assert read_steps(value) == []


@pytest.mark.parametrize("usage", [None, {}, 5, {"input_tokens": 1}, {"input_tokens": "1", "output_tokens": 2}])
def test_a_model_that_counts_no_tokens_has_none(usage: object) -> None:
    assert usage_tokens(usage) is None
    assert usage_tokens({"input_tokens": 3, "output_tokens": 4}) == (3, 4)
