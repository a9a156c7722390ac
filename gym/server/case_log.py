"""What a process that runs verifier cases has found so far, in its file before each case.

Whatever ends the process, the file says in which case that was; a verifier that holds the whole process is ended.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

import orjson

from gym.labels import ENV_SANDBOX_URL

NO_ANSWER: Final = "no answer"
NO_START: Final = "no start: "  # and why
NOT_RUN: Final = "not run"
# Seed, steps and verify. The slowest case that comes along takes a tenth of it, on a busy machine.
CASE_SECONDS, SANDBOX_CASE_SECONDS = 180.0, 600.0
SPARE_SECONDS: Final = 10.0  # for the event loop's own timeout, which says more, to come first
STACKS: Final = ".stacks"
ROW_PROBLEMS: Final = ".rows"  # of the example rows, beside the outcomes


@dataclass(frozen=True)
class CaseOutcome:
    """What came of a case."""

    name: str
    kind: str
    passed: bool
    expected: str
    got: str
    reason: str = ""

    @property
    def is_silent(self) -> bool:
        return self.got.startswith(NO_ANSWER)


class Waiting(Protocol):
    """Makes the outcome of a case that has none yet."""

    def __call__(self, got: str, reason: str = "") -> CaseOutcome: ...


def case_seconds(fields: Mapping[str, Any]) -> float:
    """A first sandbox may have to fetch its image."""
    return SANDBOX_CASE_SECONDS if "sandbox" in fields or os.environ.get(ENV_SANDBOX_URL) else CASE_SECONDS


class CaseLog:
    """`begin` each case, and `end` with what came of all. `waiting` are all cases by their names, in their order."""

    def __init__(self, out: Path, waiting: Mapping[str, Waiting], seconds: float) -> None:
        self._out = out
        self._waiting = waiting
        self._seconds = seconds + SPARE_SECONDS
        self._stacks: IO[bytes] = out.with_suffix(STACKS).open("wb")

    def begin(self, name: str, done: Mapping[str, CaseOutcome]) -> None:
        left = {**not_run(self._waiting, name), name: self._waiting[name](NO_ANSWER), **done}
        self._write(left[one] for one in self._waiting)
        # Of C: what runs there for ever, as a search by a pattern may, lets no thread of Python's say so.
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._stacks)

    def end(self, outcomes: Sequence[CaseOutcome]) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._write(outcomes)

    def _write(self, outcomes: Iterable[CaseOutcome]) -> None:
        self._out.write_bytes(b"".join(orjson.dumps(asdict(one)) + b"\n" for one in outcomes))


def not_run(waiting: Mapping[str, Waiting], silent: str) -> dict[str, CaseOutcome]:
    return {name: make(NOT_RUN, f"{silent!r} got no answer") for name, make in waiting.items()}
