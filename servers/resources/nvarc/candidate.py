"""A candidate's `transform`, run in a sandbox: what it made of a grid, or why it made nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from gym.sandbox.short_programs import ProgramLimits, ProgramOutcome, Programs
from gym.wire.failures import RolloutError

HARNESS: Final = Path(__file__).with_name("harness.py")
MAX_OUTPUT: Final = 4 << 20  # bytes; a grid needs a few hundred


class Ran(NamedTuple):
    value: Any  # what transform returned
    error: str = ""


class Candidates:
    """Runs them in the places of `programs`, each for at most so many seconds of CPU time."""

    def __init__(self, programs: Programs, *, seconds: float, memory: int) -> None:
        self._programs = programs
        self._bounds = ProgramLimits(cpu=seconds, memory=memory, output=MAX_OUTPUT)
        self._harness = HARNESS.read_text("utf-8")

    async def run(self, code: str, inputs: list[list[int]]) -> Ran:
        """`transform(inputs)` of the code. The expected output never goes there."""
        asked = f"{json.dumps(code)}\n{json.dumps(inputs)}"
        async with self._programs.for_rollout() as programs:
            (outcome,) = await programs.run(self._harness, [asked], fn="answer", bounds=self._bounds, imports=code)
        return read_outcome(outcome, self._bounds.cpu)

    async def aclose(self) -> None:
        await self._programs.aclose()


def read_outcome(outcome: ProgramOutcome, seconds: float) -> Ran:
    if outcome.end == "wall":
        what = f"transform was given too little of the machine: {outcome.seconds:.0f} s for {outcome.cpu:.1f} s"
        raise RolloutError("timeout", what)
    if outcome.end == "time":
        return Ran(None, f"transform took more than {seconds:g} s of CPU time, or slept as long")
    if outcome.end == "output":
        return Ran(None, "transform returned or printed too much")
    try:
        return Ran(None if outcome.value is None else json.loads(outcome.value), outcome.error[:500])
    except (ValueError, RecursionError):  # what the code says is JSON need not be
        return Ran(None, "transform returned no JSON value")
