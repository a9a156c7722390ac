"""`python -m gym.cli.audit.process FOLDER OUT`: audits a server in its own environment, one finding a line.

Every request goes through the real app on a real socket, each rollout in a session of its own.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from gym.cli.audit.answers import Answer, worthless_answers
from gym.cli.audit.bad_rows import BadRow, bad_rows
from gym.cli.audit.figures import is_leak, percentile, resident_bytes, slope
from gym.errors import UserError
from gym.server.base import ServerApp
from gym.server.cases import CASES, Bench, Case, load_cases, start, started
from gym.server.resources import ResourcesServer
from gym.server.serve import load_app
from gym.server.testing import Answered, Scripted
from gym.wire import items

AT_ONCE = 100
TIMED = 200
BLOCKED = 1.0  # seconds of the event loop's own CPU time for one verify: everybody else waits
SLOW = 0.3  # seconds: a verify that starts containers; of those an audit asks for fewer
FEW = 12
SAMPLES = 30
LEAST_SAMPLES = 4


@dataclass
class Finding:
    """One line of the report."""

    check: str
    passed: bool
    detail: str
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Subject:
    """A running server and the cases that say what a perfect policy would answer."""

    bench: Bench
    oracles: tuple[Case, ...]
    floor: float
    floor_reason: str
    refusing: tuple[Scripted, ...]  # what an honest judge says of a worthless answer
    at_once: int = AT_ONCE


def main(folder: Path, out: Path, spec: Mapping[str, Any]) -> int:
    app = load_app(folder / "app.py")
    if not isinstance(app, ServerApp):
        raise UserError(f"{folder.name}/app.py is no server of this SDK: it cannot be audited in process.")
    cases = load_cases(folder / CASES)
    oracles = tuple(case for case in cases if case.oracle and "response" in case.request)
    if not oracles:
        raise UserError(
            f"{folder.name}/{CASES}: no case is marked as an oracle's.",
            'Set "oracle": true on full_reward cases that answer example rows as a perfect policy would.',
        )
    findings = asyncio.run(audit(app, spec["name"], spec["fields"], cases, oracles, quick=spec["quick"]))
    out.write_bytes(b"".join(orjson.dumps(asdict(one)) + b"\n" for one in findings))
    return 0


async def audit(
    app: ServerApp,
    name: str,
    fields: Mapping[str, Any],
    cases: Sequence[Case],
    oracles: tuple[Case, ...],
    *,
    quick: bool,
) -> list[Finding]:
    """All findings. Cases of another configuration than the first oracle's stay out."""
    config = oracles[0].config
    refusing = next((one.judge for one in cases if one.judge and one.expected_reward == 0.0), ())
    async with started(app, name, {**fields, **config}) as bench:
        floor, reason = _floor(bench)
        mine = tuple(one for one in oracles if one.config == config)
        subject = Subject(bench, mine, floor, reason, refusing)
        findings = [await score_oracles(subject)]
        if slow := bench.verify_seconds > SLOW:
            subject = replace(subject, oracles=mine[:1] if quick else mine, at_once=FEW)
        findings += [*await score_worthless(subject), await refuse_bad_rows(subject)]
        findings += [await repeat(subject), await crowd(subject)]
        findings += [await time_verify(subject, FEW if slow else 50 if quick else TIMED)]
        findings += [await watch_memory(subject, 500 if quick else 10_000, seconds=15.0 if quick else 120.0)]
    return findings


def _floor(bench: Bench) -> tuple[float, str]:
    server = bench.app.server
    return (server.reward_floor, server.reward_floor_reason) if isinstance(server, ResourcesServer) else (0.0, "")


async def score_oracles(subject: Subject) -> Finding:
    wrong = []
    for case in subject.oracles:
        got = _told(await subject.bench.ask(case))
        if got != case.expected_reward:
            wrong.append(f"{case.name}: {got}, not {case.expected_reward}")
    return _finding("oracle answers", wrong, f"{len(subject.oracles)} answers of a perfect policy score full")


async def score_worthless(subject: Subject) -> list[Finding]:
    """One finding a kind of answer: none may score more than the floor, be anything but a reward, or block the loop."""
    wrong: dict[str, list[str]] = {}
    count: dict[str, int] = defaultdict(int)
    for case in subject.oracles:
        for answer in worthless_answers(case.request):
            count[answer.check] += 1
            told = wrong.setdefault(answer.check, [])
            began = time.thread_time()
            got = _told(await subject.bench.ask(_worthless(case, subject), _with_output(case, answer.output)))
            spent = time.thread_time() - began
            if not isinstance(got, float) or got > max(subject.floor, case.floor):
                told.append(f"{case.name}: {_shown(answer)} got {got}")
            elif spent > BLOCKED:
                told.append(f"{case.name}: {_shown(answer)} kept the event loop busy for {spent:.1f} s")
    why = _floors(subject)
    return [
        _finding(check, told, f"{count[check]} answers score nothing{why}", answers=count[check])
        for check, told in wrong.items()
    ]


async def refuse_bad_rows(subject: Subject) -> Finding:
    """Each gets a reward, or a 422 that names the field; none breaks the verifier."""
    case = subject.oracles[0]
    wrong = []
    rows = list(bad_rows(case.request, few=subject.at_once < AT_ONCE))
    for bad in rows:
        told = await subject.bench.ask(_worthless(case, subject), bad.request)
        if fault := _fault_of_refusal(bad, told):
            wrong.append(f"{bad.wrong}: {fault}")
    return _finding("bad rows", wrong, f"{len(rows)} rows get a reward, or a 422 that names the field")


def _fault_of_refusal(bad: BadRow, answer: Answered | str) -> str:
    told = _told(answer)
    if isinstance(told, float):
        return f"got {told}, and breaks the contract" if bad.refused else ""
    named = told.startswith("422 row:") and bad.field in told
    return "" if named else told


def _floors(subject: Subject) -> str:
    """What worthless answers may earn all the same, and why."""
    reasons = {case.floor_reason: case.floor for case in subject.oracles if case.floor}
    if subject.floor:
        reasons = {subject.floor_reason or "no reason given": subject.floor}
    return "".join(f", or {floor:g} ({reason})" for reason, floor in reasons.items())


async def repeat(subject: Subject) -> Finding:
    wrong = []
    for case in subject.oracles:
        first, second = [_told(await subject.bench.ask(case)) for _ in range(2)]
        if first != second:
            wrong.append(f"{case.name}: {first}, then {second}")
    return _finding("same twice", wrong, "the same answer twice scores the same")


async def crowd(subject: Subject) -> Finding:
    """As many rollouts at once score as they do one after another."""
    rollouts = _mixture(subject)
    heard: dict[bytes, deque[Scripted]] = defaultdict(deque)
    alone = []
    for case, request in rollouts:
        asked = len(subject.bench.judge.asked)
        alone.append(_told(await subject.bench.ask(case, request)))
        for body, text in zip(subject.bench.judge.asked[asked:], case.judge, strict=False):
            heard[_digest(body)].append(text)
    subject.bench.judge.answer = lambda body: _next(heard[_digest(body)])
    try:
        together = await asyncio.gather(*(subject.bench.ask(case, request) for case, request in rollouts))
    finally:
        subject.bench.judge.answer = None
    wrong = [
        f"{case.name}: {one} alone, {_told(many)} among {subject.at_once}"
        for (case, _), one, many in zip(rollouts, alone, together, strict=True)
        if one != _told(many)
    ]
    return _finding("concurrent", wrong, f"{subject.at_once} at once score as one after another")


async def time_verify(subject: Subject, count: int) -> Finding:
    seconds = []
    for number in range(count):
        case = subject.oracles[number % len(subject.oracles)]
        await subject.bench.ask(case)
        seconds.append(subject.bench.verify_seconds)
    figures = {"p50_ms": 1e3 * percentile(seconds, 0.5), "p99_ms": 1e3 * percentile(seconds, 0.99)}
    told = f"p50 {figures['p50_ms']:.2f} ms, p99 {figures['p99_ms']:.2f} ms over {count} verifies"
    return Finding("time", True, told, figures)


async def watch_memory(subject: Subject, count: int, *, seconds: float) -> Finding:
    """A number that is judged by its slope. Stops early where a verify takes long."""
    points = []
    ends = time.monotonic() + seconds
    every = 1 if subject.at_once < AT_ONCE else max(1, count // SAMPLES)
    for number in range(count):
        case = subject.oracles[number % len(subject.oracles)]
        await subject.bench.ask(case)
        subject.bench.judge.asked.clear()
        if (number + 1) % every == 0:
            points.append((float(number + 1), float(resident_bytes())))
            if time.monotonic() > ends and len(points) >= LEAST_SAMPLES:
                break
    settled = points[len(points) // 3 :]
    grown = (settled[-1][1] - settled[0][1]) / 2**20
    each = slope(settled)
    told = f"{grown:+.1f} MB over the last {settled[-1][0] - settled[0][0]:,.0f} verifies ({each:+.0f} bytes each)"
    return Finding("memory", not is_leak(points), told, {"bytes_per_verify": each, "grown_mb": grown})


def _mixture(subject: Subject) -> list[tuple[Case, dict[str, Any]]]:
    """Right and wrong answers to several rows, in turns."""
    wrong = [
        (_worthless(case, subject), _with_output(case, answer.output))
        for case in subject.oracles
        for answer in worthless_answers(case.request)
        if answer.check in ("empty", "random", "label injection")
    ]
    right = [(case, case.request) for case in subject.oracles]
    turns = (right, wrong or right)
    return [turns[number % 2][number // 2 % len(turns[number % 2])] for number in range(subject.at_once)]


def _worthless(case: Case, subject: Subject) -> Case:
    """The same row, nothing done, and a judge that sees it."""
    return case.model_copy(update={"steps": (), "judge": subject.refusing * 20})


def _with_output(case: Case, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {**case.request, "response": {**case.request["response"], "output": output}}


def _told(answer: Answered | str) -> float | str:
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


def _shown(answer: Answer) -> str:
    texts = (items.item_text(item) or orjson.dumps(item).decode() for item in answer.output)
    text = " | ".join(texts).strip() or "silence"
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


def _finding(check: str, wrong: Iterable[str], fine: str, **figures: float) -> Finding:
    told = list(wrong)
    more = f" … and {len(told) - 3} more" if len(told) > 3 else ""
    return Finding(check, not told, "; ".join(told[:3]) + more if told else fine, figures)


def _digest(body: Mapping[str, Any]) -> bytes:
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def _next(texts: deque[Scripted]) -> Scripted:
    """The recorded answers in turns: the same question may come from several rollouts."""
    if not texts:
        return 500
    texts.rotate(-1)
    return texts[-1]


if __name__ == "__main__":
    raise SystemExit(start(main, sys.argv[1:]))
