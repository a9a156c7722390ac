"""Checks of what is paid for: always the same answer, texts that are not text, the same body twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from gym.cli.audit.constants import constant_answers, right_share
from gym.cli.audit.raw_bodies import RawBody, lone_surrogates, no_utf8
from gym.cli.audit.subject import AuditFinding, AuditSubject, finding, reward_of, with_output
from gym.cli.audit.worthless_answers import worthless_answers
from gym.server.cases import Case
from gym.server.resources import ResourcesServer
from gym.wire import items

NEAR_ENOUGH = 1e-9


async def always_the_same(subject: AuditSubject) -> AuditFinding:
    """The mean over the example rows of each constant answer, in the form that earns most."""
    rows = subject.rows[:2] if subject.is_slow else subject.rows
    means: dict[str, float] = {}
    wrong: list[str] = []
    for text, forms in constant_answers(subject.rows).items():
        earned = [await _mean(subject, rows, form, wrong) for form in (forms[:1] if subject.is_slow else forms)]
        means[text] = max(earned)
    floor, reason = _allowed(subject)
    shares = {text: right_share(rows, text) for text in means}
    wrong += [
        f"always {text[:60]!r} earns {mean:.2g} a row, {max(floor, shares[text]):.2g} at most is right or declared"
        for text, mean in means.items()
        if mean > max(floor, shares[text]) + NEAR_ENOUGH
    ]
    shown = [f"{text[:40]!r} {mean:.2g}{_why(shares[text])}" for text, mean in means.items() if mean > NEAR_ENOUGH]
    best = max(means.values(), default=0.0)
    why = f" ({reason})" if reason and floor and best else ""
    return finding("constant answers", wrong, (", ".join(shown) or "none earns anything") + why, best=best, paid=best)


def _why(share: float) -> str:
    return f", right in {share:.2g} of the rows" if share else ""


async def take_surrogates(subject: AuditSubject) -> AuditFinding:
    """A model can write them, so they are an answer: a reward."""
    return await _take(subject, "lone surrogates", lone_surrogates, refusable=False)


async def take_bytes(subject: AuditSubject) -> AuditFinding:
    """Only a broken client sends them: a reward, or a refusal as a bad row."""
    return await _take(subject, "no UTF-8", no_utf8, refusable=True)


async def repeat(subject: AuditSubject) -> AuditFinding:
    """Byte for byte: right answers, and wrong ones."""
    wrong = []
    count = 0
    for case, request in _repeated(subject):
        body, count = orjson.dumps(request), count + 1
        first, second = [reward_of(await subject.bench.ask(case, request, raw=body)) for _ in range(2)]
        if first != second:
            wrong.append(f"{case.name}: {first}, then {second}")
    return finding("same twice", wrong, f"{count} bodies, sent twice, score the same again")


def _repeated(subject: AuditSubject) -> Iterator[tuple[Case, dict[str, Any]]]:
    for case in subject.oracles:
        yield case, case.request
        for answer in () if subject.is_slow else worthless_answers(case.request):
            if answer.check in ("empty", "random", "label injection"):
                yield subject.worthless(case), with_output(case, answer.output)


async def _mean(subject: AuditSubject, rows: tuple[Mapping[str, Any], ...], text: str, wrong: list[str]) -> float:
    rewards = []
    for row in rows:
        case = _case_of(subject, row, text)
        got = reward_of(await subject.bench.ask(case))
        rewards.append(got if isinstance(got, float) else 0.0)
        if not isinstance(got, float):
            wrong.append(f"{text[:60]!r}: {got}")
    return sum(rewards) / len(rewards) if rewards else 0.0


def _case_of(subject: AuditSubject, row: Mapping[str, Any], text: str) -> Case:
    """The row as an agent would send it, answered with the text."""
    like = subject.worthless(subject.oracles[0])
    response = {**like.request["response"], "output": [items.message(text)]}
    return like.model_copy(update={"request": {**row, "response": response}})


def _allowed(subject: AuditSubject) -> tuple[float, str]:
    server = subject.bench.app.server
    if not isinstance(server, ResourcesServer):
        return subject.floor, subject.floor_reason
    if server.constant_floor > subject.floor:
        return server.constant_floor, server.constant_floor_reason
    return subject.floor, subject.floor_reason


async def _take(
    subject: AuditSubject, check: str, bodies: Callable[[Mapping[str, Any]], Iterator[RawBody]], *, refusable: bool
) -> AuditFinding:
    wrong = []
    count = 0
    for case in subject.oracles[:1] if subject.is_slow else subject.oracles:
        for one in subject.some(bodies(case.request), lambda one: one.place):
            count += 1
            worthless = subject.worthless(case)
            got = reward_of(await subject.bench.ask(worthless, raw=one.body))
            if isinstance(got, str):
                wrong += [] if refusable and got.startswith("422 row:") else [f"{case.name}: {one.what}: {got}"]
            elif got > max(subject.floor, case.floor) and not one.right:
                wrong.append(f"{case.name}: {one.what} got {got}")
    fine = "get a reward, or a 422" if refusable else "get a reward"
    return finding(check, wrong, f"{count} bodies {fine}", bodies=count)
