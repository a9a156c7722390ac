"""`python -m gym.cli.audit.process FOLDER OUT`: audits a server in its own environment, one finding a line.

Every request goes through the real app on a real socket, each rollout in a session of its own.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from gym.cli.audit.bad_rows import RefusedBody, bad_rows
from gym.cli.audit.check_names import ORACLES, WORTHLESS, checks_of
from gym.cli.audit.figures import collect_only_new, is_leak, percentile, resident_bytes, slope
from gym.cli.audit.paid import always_the_same, repeat, take_bytes, take_surrogates
from gym.cli.audit.subject import AT_ONCE, AuditFinding, AuditSubject, finding, reward_of, with_output
from gym.cli.audit.surface import pay_all_options, pay_harmless, pay_right_then_wrong, refuse_near_misses
from gym.cli.audit.worthless_answers import WorthlessAnswer, worthless_answers
from gym.errors import UserError
from gym.files import write_atomically
from gym.server.base import ServerApp
from gym.server.case_log import NO_ANSWER
from gym.server.case_rows import read_lines
from gym.server.cases import CASES, Bench, Case, load_cases, start, started
from gym.server.offered_tools import fill_own_tools
from gym.server.resources import ResourcesServer
from gym.server.serve import load_app
from gym.server.testing import Answered, Scripted
from gym.wire import items

TIMED = 200
WATCHED, WATCHED_QUICKLY = 10_000, 500  # verifies whose memory is watched
EXAMPLES = Path("data") / "example.jsonl"
Check = Callable[[], Awaitable[list[AuditFinding]]]
Tell = Callable[[str], object]  # which check comes now
MakeChecks = Callable[[AuditSubject, bool], dict[str, Check]]
STRICT = "strict"
SURFACE = ("all options", "right then wrong", "harmless changes", "near misses")
BLOCKED = 1.0  # seconds of the event loop's own CPU time for one verify: every other request waits
SLOW = 0.3  # seconds: a verify that starts containers; of those an audit asks for fewer
FEW = 12
PER_KIND = 2  # worthless answers of one kind, where a quick audit meets a slow verify
SAMPLES = 30
LEAST_SAMPLES = 4


def main(folder: Path, out: Path, spec: Mapping[str, Any]) -> int:
    app = load_app(folder / "app.py")
    if not isinstance(app, ServerApp):
        raise UserError(f"{folder.name}/app.py is not a server of this SDK: it cannot be audited in process.")
    cases = load_cases(folder / CASES)
    if not oracles_of(cases):
        raise UserError(
            f"{folder.name}/{CASES}: no case is marked as an oracle's.",
            'Set "oracle": true on full_reward cases that answer example rows as a perfect policy would.',
        )
    rows = tuple(read_lines(folder / EXAMPLES)) if (folder / EXAMPLES).is_file() else ()
    options = {"quick": spec["quick"], "only": spec.get("only", ()), "strict": spec.get("strict", False)}
    tell = partial(write_atomically, Path(spec["progress"])) if spec.get("progress") else None
    findings = asyncio.run(audit(app, spec["name"], spec["fields"], cases, rows, **options, tell=tell))
    out.write_bytes(b"".join(orjson.dumps(asdict(one)) + b"\n" for one in findings))
    return 0


def oracles_of(cases: Sequence[Case]) -> tuple[Case, ...]:
    return tuple(case for case in cases if case.oracle and "response" in case.request)


async def audit(
    app: ServerApp,
    name: str,
    fields: Mapping[str, Any],
    cases: Sequence[Case],
    rows: tuple[Mapping[str, Any], ...] = (),
    *,
    quick: bool,
    only: Sequence[str] = (),
    strict: bool = False,
    tell: Tell | None = None,
) -> list[AuditFinding]:
    """All findings, or those of the checks `only`. Cases of another configuration than the first oracle's stay out.

    A verifier with a strict mode is audited in both modes, with `strict` in that one alone. What an answer's looks do
    binds in strict mode, and elsewhere is shown: the default is its original's.
    """
    only = checks_of(only)
    plain = {**fields, **oracles_of(cases)[0].config}
    first = {**plain, STRICT: True} if strict else plain
    async with started(app, name, first) as bench:
        has_strict = _has_strict(bench)
        subject = _subject(bench, cases, rows, is_strict=strict)
        findings = await _find(subject, _checks, quick, only, tell)
    if strict or plain.get(STRICT):
        return findings
    findings = [_shown_only(one) if one.check in SURFACE else one for one in findings]
    if not has_strict:
        return findings
    async with started(app, name, {**plain, STRICT: True}) as bench:
        subject = _subject(bench, cases, rows, is_strict=True)
        repeated = [one for one in only if one in _rewards(subject, quick)]
        return findings if only and not repeated else findings + await _find(subject, _rewards, quick, repeated, tell)


def _shown_only(found: AuditFinding) -> AuditFinding:
    return replace(found, passed=True, binding=False)


async def _find(
    subject: AuditSubject, make: MakeChecks, quick: bool, only: Sequence[str], tell: Tell | None
) -> list[AuditFinding]:
    findings = [await score_oracles(subject)]
    if subject.bench.verify_seconds > SLOW:
        subject = replace(subject, at_once=FEW)
        subject = replace(subject, oracles=subject.oracles[:1], per_kind=PER_KIND) if quick else subject
    chosen = _chosen(make(subject, quick), only)
    for number, (name, check) in enumerate(chosen.items(), 1):
        if tell is not None:
            tell(f"{name}, {number} of {len(chosen)}{' in strict mode' if subject.is_strict else ''}")
        findings += await check()
    return [replace(one, mode="strict") for one in findings] if subject.is_strict else findings


def _subject(
    bench: Bench, cases: Sequence[Case], rows: tuple[Mapping[str, Any], ...], *, is_strict: bool
) -> AuditSubject:
    oracles = oracles_of(cases)
    mine = tuple(_filled(one, bench) for one in oracles if one.config == oracles[0].config)
    refusing = next((one.judge for one in cases if one.judge and one.expected_reward == 0.0), ())
    floor, reason = _floor(bench)
    return AuditSubject(bench, mine, floor, reason, refusing, rows, is_strict=is_strict)


def _filled(case: Case, bench: Bench) -> Case:
    return case.model_copy(update={"request": fill_own_tools(case.request, bench.app.server)})


def _has_strict(bench: Bench) -> bool:
    server = bench.app.server
    return isinstance(server, ResourcesServer) and STRICT in type(server.config).model_fields


def _chosen(checks: Mapping[str, Check], only: Sequence[str]) -> dict[str, Check]:
    """The oracles' answers come before all of them. Those of another mode are none."""
    return {one: check for one, check in checks.items() if not only or one in only}


def _checks(subject: AuditSubject, quick: bool) -> dict[str, Check]:
    """In the order of the report; the memory's last, since it takes longest."""
    times = FEW if subject.is_slow else 50 if quick else TIMED
    memory = partial(watch_memory, subject, WATCHED_QUICKLY if quick else WATCHED, seconds=15.0 if quick else 120.0)
    return {
        **_rewards(subject, quick),
        "lone surrogates": _alone(partial(take_surrogates, subject)),
        "no UTF-8": _alone(partial(take_bytes, subject)),
        "bad rows": _alone(partial(refuse_bad_rows, subject)),
        "same twice": _alone(partial(repeat, subject)),
        "concurrent": _alone(partial(crowd, subject)),
        "time": _alone(partial(time_verify, subject, times)),
        "memory": _alone(memory),
    }


def _rewards(subject: AuditSubject, quick: bool) -> dict[str, Check]:
    """What is paid for: the only ones that a strict mode changes."""
    return {
        WORTHLESS: partial(score_worthless, subject),
        "constant answers": _alone(partial(always_the_same, subject)),
        "all options": _alone(partial(pay_all_options, subject)),
        "right then wrong": _alone(partial(pay_right_then_wrong, subject)),
        "harmless changes": _alone(partial(pay_harmless, subject)),
        "near misses": _alone(partial(refuse_near_misses, subject)),
    }


def _alone(check: Callable[[], Awaitable[AuditFinding]]) -> Check:
    async def run() -> list[AuditFinding]:
        return [await check()]

    return run


def _floor(bench: Bench) -> tuple[float, str]:
    server = bench.app.server
    return (server.reward_floor, server.reward_floor_reason) if isinstance(server, ResourcesServer) else (0.0, "")


async def score_oracles(subject: AuditSubject) -> AuditFinding:
    wrong = []
    for case in subject.oracles:
        got = reward_of(await subject.bench.ask(case))
        if isinstance(got, str) and got.startswith(NO_ANSWER):
            raise UserError(f"{case.place or case.name}: {got}, so nothing else was asked.")
        if got != case.expected_reward:
            wrong.append(f"{case.name}: {got}, not {case.expected_reward}")
    return finding(ORACLES, wrong, f"{len(subject.oracles)} answers of a perfect policy score full")


async def score_worthless(subject: AuditSubject) -> list[AuditFinding]:
    """One finding a kind of answer: none may score more than the floor, be anything but a reward, or block the loop."""
    wrong: dict[str, list[str]] = {}
    count: dict[str, int] = defaultdict(int)
    paid: dict[str, float] = defaultdict(float)
    for case in subject.oracles:
        for answer in subject.some(worthless_answers(case.request), lambda one: one.kind):
            count[answer.check] += 1
            lines = wrong.setdefault(answer.check, [])
            began = time.thread_time()
            got = reward_of(await subject.bench.ask(subject.worthless(case), with_output(case, answer.output)))
            spent = time.thread_time() - began
            paid[answer.check] = max(paid[answer.check], got if isinstance(got, float) else 0.0)
            if not isinstance(got, float) or got > max(subject.floor, case.floor):
                lines.append(f"{case.name}: {_shown(answer)} got {got}")
            elif spent > BLOCKED:
                lines.append(f"{case.name}: {_shown(answer)} kept the event loop busy for {spent:.1f} s")
    why = _floors(subject)
    return [
        finding(check, lines, f"{count[check]} answers score nothing{why}", answers=count[check], paid=paid[check])
        for check, lines in wrong.items()
    ]


async def refuse_bad_rows(subject: AuditSubject) -> AuditFinding:
    """Each gets a reward, or a 422 that names the field; none breaks the verifier."""
    case = subject.oracles[0]
    wrong = []
    rows = list(bad_rows(case.request, few=subject.at_once < AT_ONCE))
    for bad in rows:
        answer = await subject.bench.ask(subject.worthless(case), bad.request)
        if fault := _fault_of_refusal(bad, answer):
            wrong.append(f"{bad.wrong}: {fault}")
    return finding("bad rows", wrong, f"{len(rows)} rows get a reward, or a 422 that names the field")


def _fault_of_refusal(bad: RefusedBody, answer: Answered | str) -> str:
    reward = reward_of(answer)
    if isinstance(reward, float):
        return f"got {reward}, and breaks the contract" if bad.refused else ""
    named = reward.startswith("422 row:") and bad.field in reward
    return "" if named else reward


def _floors(subject: AuditSubject) -> str:
    """What worthless answers may earn all the same, and why."""
    reasons = {case.floor_reason: case.floor for case in subject.oracles if case.floor}
    if subject.floor:
        reasons = {subject.floor_reason or "no reason given": subject.floor}
    return "".join(f", or {floor:g} ({reason})" for reason, floor in reasons.items())


async def crowd(subject: AuditSubject) -> AuditFinding:
    """As many rollouts at once score as they do one after another."""
    rollouts = _mixture(subject)
    heard: dict[bytes, deque[Scripted]] = defaultdict(deque)
    alone = []
    for case, request in rollouts:
        asked = len(subject.bench.judge.asked)
        alone.append(reward_of(await subject.bench.ask(case, request)))
        for body, text in zip(subject.bench.judge.asked[asked:], case.judge, strict=False):
            heard[_digest(body)].append(text)
    subject.bench.judge.answer = lambda body: _next(heard[_digest(body)])
    try:
        together = await asyncio.gather(*(subject.bench.ask(case, request) for case, request in rollouts))
    finally:
        subject.bench.judge.answer = None
    wrong = [
        f"{case.name}: {one} alone, {reward_of(many)} among {subject.at_once}"
        for (case, _), one, many in zip(rollouts, alone, together, strict=True)
        if one != reward_of(many)
    ]
    return finding("concurrent", wrong, f"{subject.at_once} at once score as one after another")


async def time_verify(subject: AuditSubject, count: int) -> AuditFinding:
    seconds = []
    for number in range(count):
        case = subject.oracles[number % len(subject.oracles)]
        await subject.bench.ask(case)
        seconds.append(subject.bench.verify_seconds)
    figures = {"p50_ms": 1e3 * percentile(seconds, 0.5), "p99_ms": 1e3 * percentile(seconds, 0.99)}
    detail = f"p50 {figures['p50_ms']:.2f} ms, p99 {figures['p99_ms']:.2f} ms over {count} verifies"
    return AuditFinding("time", True, detail, figures)


async def watch_memory(subject: AuditSubject, count: int, *, seconds: float) -> AuditFinding:
    """A number that is judged by its slope. Stops early where a verify takes long."""
    points = []
    deadline = time.monotonic() + seconds
    every = 1 if subject.at_once < AT_ONCE else max(1, count // SAMPLES)
    with collect_only_new():
        for number in range(count):
            case = subject.oracles[number % len(subject.oracles)]
            await subject.bench.ask(case)
            subject.bench.judge.asked.clear()
            if (number + 1) % every == 0:
                points.append((float(number + 1), float(resident_bytes())))
                if time.monotonic() > deadline and len(points) >= LEAST_SAMPLES:
                    break
    settled = points[len(points) // 3 :]
    grown = (settled[-1][1] - settled[0][1]) / 2**20
    each = slope(settled)
    detail = f"{grown:+.1f} MB over the last {settled[-1][0] - settled[0][0]:,.0f} verifies ({each:+.0f} bytes each)"
    return AuditFinding("memory", not is_leak(points), detail, {"bytes_per_verify": each, "grown_mb": grown})


def _mixture(subject: AuditSubject) -> list[tuple[Case, dict[str, Any]]]:
    """Right and wrong answers to several rows, in turns."""
    wrong = [
        (subject.worthless(case), with_output(case, answer.output))
        for case in subject.oracles
        for answer in worthless_answers(case.request)
        if answer.check in ("empty", "random", "label injection")
    ]
    right = [(case, case.request) for case in subject.oracles]
    turns = (right, wrong or right)
    return [turns[number % 2][number // 2 % len(turns[number % 2])] for number in range(subject.at_once)]


def _shown(answer: WorthlessAnswer) -> str:
    texts = (items.item_text(item) or orjson.dumps(item).decode() for item in answer.output)
    text = " | ".join(texts).strip() or "silence"
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


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
