"""Test after test until one fails: outcomes come from the sandboxes, verdicts are made here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from comparing import compare_texts, read_json, same_value, shortened
from rows import UnitTests

from gym.sandbox.short_programs import ProgramLimits, ProgramOutcome, Programs
from gym.wire.failures import RolloutError

WRONG, TIMEOUT, ERROR, NEVER = -2, -3, -4, -1
MAX_TESTS, MAX_BYTES = 16, 4 << 20  # that go into a sandbox at once
WORDS = {WRONG: "a wrong answer", TIMEOUT: "too much time", ERROR: "an error", NEVER: "no outcome"}


@dataclass(frozen=True, slots=True)
class Grade:
    result: list[bool | int]
    metadata: dict[str, Any] | None

    @property
    def passed(self) -> bool:
        return bool(self.result) and all(one is True for one in self.result)

    @property
    def reason(self) -> str:
        code = int(self.result[-1]) if self.result else NEVER
        error = (self.metadata or {}).get("error") or (self.metadata or {}).get("error_message") or ""
        return f"test {len(self.result)}: {WORDS.get(code, 'no outcome')}: {error}"[:500]


class Grader:
    def __init__(self, programs: Programs, bounds: ProgramLimits, *, strict: bool = False) -> None:
        self._programs = programs
        self._bounds = bounds
        self._strict = strict

    async def grade(self, code: str, tests: UnitTests) -> Grade:
        async with self._programs.for_rollout() as programs:
            return await self._grade(programs, code, tests)

    async def _grade(self, programs: Programs, code: str, tests: UnitTests) -> Grade:
        result: list[bool | int] = []
        spent = 0.0
        for part in in_parts(tests.inputs):
            outcomes = await programs.run(code, tests.inputs[part], fn=tests.fn_name, bounds=self._bounds)
            for outcome in outcomes:
                at = len(result)
                verdict, facts = self.judge(outcome, tests.outputs[at], tests.fn_name)
                if verdict == NEVER:
                    return Grade([NEVER] * len(tests.inputs), {"error": outcome.error, "error_code": NEVER})
                if verdict is not True:
                    shown = {"inputs": shortened(tests.inputs[at]), "expected": shortened(tests.outputs[at])}
                    return Grade([*result, verdict], {**facts, **shown, "error_code": verdict})
                result.append(True)
                spent += outcome.cpu
        return Grade(result, {"execution time": spent})

    def judge(self, outcome: ProgramOutcome, expected: str, fn: str | None) -> tuple[bool | int, dict[str, Any]]:
        if outcome.end == "wall":
            what = f"a program was given too little of the machine: {outcome.seconds:.0f} s for {outcome.cpu:.1f} s"
            raise RolloutError("timeout", what)
        if outcome.end == "broken":
            return NEVER, {}
        if outcome.end == "time":
            seconds = f"more than {self._bounds.cpu:g} s of CPU time, or asleep"
            return TIMEOUT, {"error": seconds, "error_message": "Time Limit Exceeded"}
        if outcome.end != "ok":
            error = outcome.error or f"more than {self._bounds.output} bytes of output"
            return ERROR, {"error": error, "error_message": "Runtime Error", "traceback": outcome.traceback}
        if fn is not None:
            return judge_value(outcome, expected)
        wrong = compare_texts(outcome.stdout, expected, strict=self._strict)
        return (WRONG, {"output": shortened(outcome.stdout), "error_message": wrong}) if wrong else (True, {})


def judge_value(outcome: ProgramOutcome, expected: str) -> tuple[bool | int, dict[str, Any]]:
    try:
        if outcome.value is not None and same_value(read_json(outcome.value), read_json(expected)):
            return True, {}
    except (ValueError, RecursionError):  # what the program says is JSON need not be
        pass
    output = outcome.value if outcome.value is not None else outcome.error
    return WRONG, {"output": shortened(output), "error_message": "Wrong Answer"}


def in_parts(inputs: Sequence[str]) -> Iterator[slice]:
    """One test, then two, then more at once: most wrong programs fail at the first."""
    begin, size = 0, 1
    while begin < len(inputs):
        end, weight = begin + 1, len(inputs[begin])
        while end < min(begin + size, len(inputs)) and (weight := weight + len(inputs[end])) <= MAX_BYTES:
            end += 1
        yield slice(begin, end)
        begin, size = end, min(size * 2, MAX_TESTS)
