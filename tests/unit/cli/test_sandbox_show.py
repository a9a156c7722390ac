"""What `gym sandbox exec` prints and how it ends: as the command inside did."""

from __future__ import annotations

from typing import Any

import pytest

from gym.cli.sandbox.show import exit_code, sandbox_table, show_output
from gym.errors import InfraError
from gym.wire.sandbox import ExecResult, Output, SandboxInfo


def test_both_streams_come_out_byte_by_byte_and_the_result_ends_it(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    lines: list[dict[str, Any]] = [
        {"stream": 1, "data": "grüß "},
        {"stream": 2, "data": "oh\n"},
        {"stream": 1, "data": {"base64": "//4="}},
        {"result": {"exit_code": 3}},
        {"stream": 1, "data": "never"},
    ]
    assert show_output(iter(lines)).exit_code == 3
    shown = capfdbinary.readouterr()
    assert shown.out == "grüß ".encode() + b"\xff\xfe"
    assert shown.err == b"oh\n"


def test_the_end_of_a_long_output_comes_with_the_result(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    kept = {"head": "begin ", "tail": "end", "dropped": 9}
    assert show_output([{"stream": 1, "data": "begin "}, {"result": {"exit_code": 0, "stdout": kept}}]).ok
    assert capfdbinary.readouterr().out == b"begin end"


@pytest.mark.parametrize("lines", [[], [{"stream": 1, "data": "x"}]])
def test_a_line_that_breaks_is_not_a_result(lines: list[dict[str, Any]]) -> None:
    with pytest.raises(InfraError, match="broke before the command ended"):
        show_output(lines)


def test_a_failure_in_the_middle_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InfraError, match="the sandbox is lost"):
        show_output([{"error": {"kind": "sandbox", "message": "the sandbox is lost"}}])


@pytest.mark.parametrize(
    ("result", "code", "said"),
    [
        (ExecResult(exit_code=0), 0, ""),
        (ExecResult(exit_code=42), 42, ""),
        (ExecResult(signal=9), 137, ""),
        (ExecResult(signal=9, timed_out=True), 124, "killed after 5 s"),
        (ExecResult(exit_code=137, oom=True), 137, "out of memory"),
        (ExecResult(exit_code=0, stdout=Output(dropped=7)), 0, "7 bytes of output were dropped"),
    ],
)
def test_the_exit_code_is_the_commands_own(
    result: ExecResult, code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(result, 5.0) == code
    assert said in capfd.readouterr().err


def test_a_table_has_a_row_for_each_and_no_column_for_nothing() -> None:
    one = SandboxInfo(id="sb1", state="running", image="python:3.13-slim", instance="coder", stack="one")
    table = sandbox_table([one])
    assert [column.header for column in table.columns] == ["SANDBOX", "STATE", "INSTANCE", "IMAGE", "NETWORK"]
    assert table.row_count == 1
    both = sandbox_table([one, one.model_copy(update={"stack": "two"})])
    assert [column.header for column in both.columns][2] == "STACK"
