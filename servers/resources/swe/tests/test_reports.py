"""From what a run reported to a verdict."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest
from controls import Control
from grading import believable, pytest_arguments, shell_command
from hypothesis import given
from hypothesis import strategies as st
from reports import judge, parser_of, read_records, through_parser, worse
from tasks import Task

from gym.wire.failures import RolloutError

A, B = "tests/test_a.py::test_a", "tests/test_a.py::test_b[x y]"
TASK = Task(instance_id="a__b-1", FAIL_TO_PASS=(A,), PASS_TO_PASS=(B,))
has_swebench = pytest.mark.skipif(importlib.util.find_spec("swebench") is None, reason="its requirements bring it")


def lines_of(*records: dict[str, Any], word: str = "w") -> bytes:
    return b"".join(f"{word} {json.dumps(one)}\n".encode() for one in records)


def passed(name: str) -> dict[str, Any]:
    return {"id": name, "when": "call", "outcome": "passed"}


def failed(name: str, when: str = "call") -> dict[str, Any]:
    return {"id": name, "when": when, "outcome": "failed", "why": "assert 1 == 2"}


START, END = {"started": "8"}, {"ended": 0}


def test_outcomes_are_read_behind_the_word_alone() -> None:
    run = read_records(
        lines_of(START, passed(A))
        + lines_of(passed(B), word="guess")
        + b"PASSED "
        + B.encode()
        + b"\n"
        + lines_of(END),
        "w",
    )
    assert (run.statuses, run.started, run.complete, run.exit_code) == ({A: "PASSED"}, True, True, 0)


def test_of_two_outcomes_the_worse_counts() -> None:
    run = read_records(lines_of(START, failed(A), passed(A), passed(B), failed(B, "teardown"), END), "w")
    assert run.statuses == {A: "FAILED", B: "ERROR"}
    assert run.reasons[A] == "assert 1 == 2"


@pytest.mark.parametrize(
    "records", [(START, passed(A)), (START, END, passed(A)), (START, END, END)], ids=["none", "early", "two"]
)
def test_a_run_without_its_one_end_at_the_end_is_not_complete(records: tuple[dict[str, Any], ...]) -> None:
    assert not read_records(lines_of(*records), "w").complete


@given(st.binary())
def test_any_output_is_read(noise: bytes) -> None:
    run = read_records(noise + b"\nw " + noise, "w")
    assert run.complete in (True, False)


def test_resolved_needs_every_test_seen_and_passed() -> None:
    assert judge(TASK, {A: "PASSED", B: "XFAIL"}).resolved
    for statuses in ({A: "PASSED"}, {A: "PASSED", B: "SKIPPED"}, {A: "FAILED", B: "PASSED"}, {}):
        verdict = judge(TASK, statuses)
        assert not verdict.resolved
        assert verdict.reason
    assert judge(TASK, {A: "PASSED"}).tests["PASS_TO_PASS"] == {"success": [], "failure": [B]}


def test_an_id_that_is_cut_off_needs_all_that_begin_so() -> None:
    cut = Task(FAIL_TO_PASS=("t.py::test[log(a",))
    assert judge(cut, {"t.py::test[log(a b)]": "PASSED", "t.py::test[log(a c)]": "PASSED"}).resolved
    assert not judge(cut, {"t.py::test[log(a b)]": "PASSED", "t.py::test[log(a c)]": "FAILED"}).resolved
    whole = Task(FAIL_TO_PASS=("t.py::test[a]",))
    assert not judge(whole, {"t.py::test[a]b]": "PASSED"}).resolved


@given(st.lists(st.sampled_from(["ERROR", "FAILED", "SKIPPED", "XFAIL", "PASSED"]), min_size=2))
def test_worse_knows_no_order(statuses: list[str]) -> None:
    forward = statuses[0]
    for one in statuses:
        forward = worse(forward, one)
    assert worse(forward, statuses[-1]) == forward


def test_controls_that_pass_or_are_missing_make_a_run_unbelievable() -> None:
    name = "tests/test_a.py::test_control"
    control = Control({name: A}, "")
    assert believable({A: "PASSED", name: "FAILED"}, [control])
    assert believable({A: "PASSED", f"{name}[1]": "FAILED", f"{name}[2]": "ERROR"}, [control])
    assert not believable({A: "PASSED", f"{name}[1]": "FAILED", f"{name}[2]": "PASSED"}, [control])
    for status in ("PASSED", "XFAIL", "SKIPPED"):
        assert not believable({A: "PASSED", name: status}, [control])
    assert not believable({A: "PASSED"}, [control])
    assert believable({A: "PASSED"}, [control], selected=True)
    assert believable({A: "SKIPPED", name: "SKIPPED"}, [control])
    assert believable({"tests/test_z.py::test_z": "PASSED"}, [control])  # that file could not be imported
    assert not believable({A: "PASSED"}, [Control({name: ""}, "")])
    statuses = {A: "PASSED", name: "FAILED"}
    believable(statuses, [control])
    assert statuses == {A: "PASSED"}


@has_swebench
def test_swebench_reads_what_pytest_would_have_written() -> None:
    task = Task(repo="psf/requests")
    read = through_parser({"t.py::test[/a/b/c]": "PASSED", "t.py::test_x": "FAILED"}, parser_of(task))
    assert read == {"t.py::test[/c]": "PASSED", "t.py::test_x": "FAILED"}


@has_swebench
def test_swebench_reads_the_log_of_another_runner() -> None:
    parser = parser_of(Task(repo="django/django"))
    assert parser is not None
    log = "test_a (app.tests.T) ... ok\ntest_b (app.tests.T) ... FAIL\n"
    assert parser(log) == {"test_a (app.tests.T)": "PASSED", "test_b (app.tests.T)": "FAILED"}


@has_swebench
def test_an_unknown_parser_is_the_rows_fault() -> None:
    with pytest.raises(RolloutError, match="parse_log_nothing"):
        parser_of(Task(log_parser="parse_log_nothing"))


def test_where_pytest_runs_our_runner_does_and_elsewhere_the_command() -> None:
    plain = Task(FAIL_TO_PASS=(A,), test_command="python -m pytest -rA -k 'a and b'")
    assert shell_command(plain) is None
    assert pytest_arguments(plain, ("tests/test_a.py",)) == [
        *("-p", "no:cacheprovider", "-rA", "-k", "a and b", "--maxfail=0", "tests/test_a.py")
    ]
    named = Task(test_command="pytest tests/test_b.py")
    assert pytest_arguments(named, ("tests/test_a.py",))[-2:] == ["tests/test_b.py", "--maxfail=0"]
    patch = "diff --git a/tests/app/test_x.py b/tests/app/test_x.py\n"
    assert str(shell_command(Task(repo="django/django", test_patch=patch))).endswith(" app.test_x")
    assert shell_command(Task(test_command="make check")) == "make check"
