"""What is audited, and what is found of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gym.server.cases import Bench, Case
from gym.server.testing import Answered, Scripted

AT_ONCE = 100
One = TypeVar("One")


@dataclass
class AuditFinding:
    """One line of the report."""

    check: str
    passed: bool
    detail: str
    figures: dict[str, float] = field(default_factory=dict)
    mode: str = "default"  # or strict
    binding: bool = True  # in default mode a verifier is what its original is: shown, and no fault


@dataclass(frozen=True)
class AuditSubject:
    """A running server and the cases that say what a perfect policy would answer."""

    bench: Bench
    oracles: tuple[Case, ...]
    floor: float
    floor_reason: str
    refusing: tuple[Scripted, ...]  # what an honest judge says of a worthless answer
    rows: tuple[Mapping[str, Any], ...] = ()  # the examples
    at_once: int = AT_ONCE
    is_strict: bool = False
    per_kind: int = 0  # answers of a kind that are tried at most; 0: all

    @property
    def is_slow(self) -> bool:
        return self.at_once < AT_ONCE

    def some(self, answers: Iterable[One], kind: Callable[[One], object]) -> list[One]:
        """All of them, or `per_kind` of each kind, evenly taken."""
        kinds: dict[object, list[One]] = defaultdict(list)
        for answer in answers:
            kinds[kind(answer)].append(answer)
        return [one for same in kinds.values() for one in _evenly(same, self.per_kind or len(same))]

    def worthless(self, case: Case) -> Case:
        """The same row, nothing done, and a judge that sees it."""
        return case.model_copy(update={"steps": (), "judge": self.refusing * 20})


def _evenly(answers: list[One], count: int) -> list[One]:
    return answers if count >= len(answers) else [answers[each * len(answers) // count] for each in range(count)]


def with_output(case: Case, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {**case.request, "response": {**case.request["response"], "output": output}}


def reward_of(answer: Answered | str) -> float | str:
    """The reward, or what came instead."""
    if isinstance(answer, str):
        return answer
    body = answer.body if isinstance(answer.body, dict) else {}
    reward = body.get("reward")
    if answer.status == 200 and isinstance(reward, float):
        return reward
    error = body.get("error")
    return (
        f"{answer.status} {error.get('kind')}: {error.get('message')}"
        if isinstance(error, dict)
        else f"{answer.status}"
    )


def finding(check: str, wrong: Iterable[str], fine: str, **figures: float) -> AuditFinding:
    heard = list(wrong)
    more = f" … and {len(heard) - 3} more" if len(heard) > 3 else ""
    return AuditFinding(check, not heard, "; ".join(heard[:3]) + more if heard else fine, figures)
