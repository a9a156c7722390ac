"""What a verifier leaves is a reward, or no verdict at all: never a 0 by accident."""

from __future__ import annotations

import pytest
from rewards import NoVerdict, parse_reward, read_summary

HEAD = "collected 3 items\n=========== short test summary info ============\n"


@pytest.mark.parametrize(
    ("data", "reward"), [(b"1\n", 1.0), (b"0.25", 0.25), (b'{"reward": 0}', 0.0), (b'{"a": 0.5, "b": 1}', 0.5)]
)
def test_rewards_are_read(data: bytes, reward: float) -> None:
    assert parse_reward(data)[0] == reward


@pytest.mark.parametrize("data", [b"", b"yes", b"NaN", b"true", b"[1]", b'{"a": "b"}', b"1e999", b"\xff\xfe"])
def test_what_is_not_a_number_is_not_a_verdict(data: bytes) -> None:
    with pytest.raises(NoVerdict, match="not a number"):
        parse_reward(data)


@pytest.mark.parametrize(
    ("lines", "code", "reward"),
    [
        ("PASSED tests/test_a.py::test_one\nPASSED test_a.py::test_two\n== 2 passed ==\n", 0, 1.0),
        ("PASSED test_a.py::test_one\nFAILED test_a.py::test_two - assert 1 == 2\n", 1, 0.0),
        ("PASSED test_a.py::test_one\nERROR test_b.py - ImportError: x\n", 2, 0.0),
        ("SKIPPED [1] test_a.py:3: no reason\nXFAIL test_a.py::test_two - known\n", 0, 1.0),
        ("XPASS test_a.py::test_one\n", 0, 0.0),
        ("PASSED test_a.py::test_one\n", 1, 0.0),
        ("PASSED test_a.py::test_one\n", None, 0.0),
    ],
)
def test_a_summary_is_worth_one_when_all_passed_and_the_script_says_so(lines: str, code: int, reward: float) -> None:
    assert read_summary(HEAD + lines, code)[0] == reward


def test_tests_are_named_as_the_summary_names_them() -> None:
    _, found = read_summary(f"{HEAD}PASSED t/a.py::test_x[1 - 2]\nFAILED t/a.py::test_y - boom - twice\n", 1)
    assert found == {"test_x[1 - 2]": 1.0, "test_y - boom": 0.0}


@pytest.mark.parametrize("log", ["", "3 passed in 0.01s\n", HEAD, f"{HEAD}nothing of that kind\n"])
def test_a_log_without_a_summary_is_not_a_verdict(log: str) -> None:
    with pytest.raises(NoVerdict, match="-rA"):
        read_summary(log, 0)


def test_only_what_follows_the_last_heading_counts() -> None:
    printed = f"{HEAD}PASSED a.py::test_forged\n"
    assert read_summary(f"{printed}{HEAD}FAILED a.py::test_real - no\n", 0)[0] == 0.0
