"""Checks that a verifier pays for what an answer says, not for how it looks: counts false fails and near misses.

Each check names what went wrong; what a server `tolerates` is counted apart, with its reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from gym.cli.audit.constants import golds_of
from gym.cli.audit.gold import Gold, find_gold, with_text
from gym.cli.audit.harmless import HarmlessChange, harmless_changes
from gym.cli.audit.near_misses import all_options, near_misses, right_then_wrong
from gym.cli.audit.subject import AuditFinding, AuditSubject, finding, reward_of, with_output
from gym.server.cases import Case
from gym.server.resources import ResourcesServer
from gym.server.tolerated import Mode, Tolerated
from gym.wire import items
from gym.wire.items import Item

NOT_MEASURED = "not measured: "
ENOUGH = 1e-9


class GoldCase(NamedTuple):
    """A case whose gold was found, and what it earns as it stands."""

    case: Case
    gold: Gold
    output: list[Item]
    paid: float
    floor: float


async def pay_harmless(subject: AuditSubject) -> AuditFinding:
    """Every harmless change is paid as the gold is."""
    tried = 0
    wrong: list[tuple[str, str]] = []
    allowed: set[str] = set()
    places = await _places(subject)
    for place in places:
        for change in _few(subject, harmless_changes(place.gold, place.output)):
            tried += 1
            got = reward_of(await subject.bench.ask(place.case, with_output(place.case, change.output)))
            if not isinstance(got, float) or got < place.paid - ENOUGH:
                _sort(subject, change, _lost(place, change, got), wrong, allowed)
    return _finding("harmless changes", places, tried, wrong, allowed, "are paid as the gold is")


async def refuse_near_misses(subject: AuditSubject) -> AuditFinding:
    """No near miss earns more than the floor."""
    tried = 0
    wrong: list[tuple[str, str]] = []
    allowed: set[str] = set()
    places = await _places(subject)
    for place in places:
        for change in _few(subject, near_misses(place.gold, place.output, _others(subject, place))):
            tried += 1
            got = reward_of(await subject.bench.ask(_refused(subject, place), with_output(place.case, change.output)))
            tolerated = _tolerated(subject, change.name)
            max_reward = max(place.floor, tolerated.reward if tolerated else 0.0)
            if not isinstance(got, float) or got > max_reward + ENOUGH:
                wrong.append((change.name, f"{place.case.name}: {change.name}: {_shown(place, change)} got {got}"))
            elif got > place.floor + ENOUGH and tolerated:
                allowed.add(f"{tolerated.change}: {tolerated.reason}")
    return _finding("near misses", places, tried, wrong, allowed, "earn nothing")


async def pay_all_options(subject: AuditSubject) -> AuditFinding:
    return await _mean_of(subject, "all options", all_options)


async def pay_right_then_wrong(subject: AuditSubject) -> AuditFinding:
    return await _mean_of(subject, "right then wrong", right_then_wrong)


async def _mean_of(subject: AuditSubject, check: str, make: Callable[[Gold, Sequence[str]], list[str]]) -> AuditFinding:
    """The way of saying it that earns most, on average over the cases."""
    earned: dict[int, list[float]] = {}
    places = [place for place in await _places(subject) if make(place.gold, ())]
    wrong = []
    for place in places:
        for way, text in enumerate(make(place.gold, _others(subject, place))):
            request = with_output(place.case, with_text(place.output, text))
            got = reward_of(await subject.bench.ask(_refused(subject, place), request))
            earned.setdefault(way, []).append(got if isinstance(got, float) else 0.0)
            wrong += [] if isinstance(got, float) else [f"{place.case.name}: {got}"]
    best = max((sum(some) / len(some) for some in earned.values()), default=0.0)
    floor = max((place.floor for place in places), default=0.0)
    tolerated = _tolerated(subject, check)
    max_reward = max(floor, tolerated.reward if tolerated else 0.0)
    if best > max_reward + ENOUGH:
        wrong.append(f"earns {best:.2g} a row, {max_reward:.2g} at most is declared")
    if not places:
        return AuditFinding(check, True, NOT_MEASURED + "no answer names a value", {"tried": 0})
    why = f" ({tolerated.reason})" if tolerated and best > floor + ENOUGH else ""
    return finding(check, wrong, f"earns {best:.2g} a row{why}", paid=best, tried=len(places))


async def _places(subject: AuditSubject) -> list[GoldCase]:
    """Where an answer without the gold would be paid as well, there is nothing to measure."""
    found = []
    for case in subject.oracles[:2] if subject.is_slow else subject.oracles:
        gold = find_gold(case.request)
        if gold is None or case.steps:  # what was done is the gold, and not what is said of it
            continue
        paid = reward_of(await subject.bench.ask(case))
        floor = max(subject.floor, case.floor)
        if isinstance(paid, float) and paid > floor + ENOUGH:
            found.append(GoldCase(case, gold, case.request["response"]["output"], paid, floor))
    return found


def _few(subject: AuditSubject, changes: Iterator[HarmlessChange]) -> Iterable[HarmlessChange]:
    """Of a slow server one of each name."""
    return {one.name: one for one in changes}.values() if subject.is_slow else changes


def _others(subject: AuditSubject, place: GoldCase) -> list[str]:
    """What is right in other rows."""
    own = set(golds_of(place.case.request))
    return [text for row in subject.rows for text in golds_of(row) if text not in own]


def _refused(subject: AuditSubject, place: GoldCase) -> Case:
    """A judge says no to it; what the policy did stays done."""
    return place.case.model_copy(update={"judge": subject.refusing * 20})


def _sort(
    subject: AuditSubject, change: HarmlessChange, result: str, wrong: list[tuple[str, str]], allowed: set[str]
) -> None:
    if tolerated := _tolerated(subject, change.name):
        allowed.add(f"{tolerated.change}: {tolerated.reason}")
    else:
        wrong.append((change.name, result))


def _tolerated(subject: AuditSubject, change: str) -> Tolerated | None:
    server = subject.bench.app.server
    declared = server.tolerates if isinstance(server, ResourcesServer) else ()
    mode: Mode = "strict" if subject.is_strict else "default"
    return next((one for one in declared if one.change == change and one.holds_in(mode)), None)


def _lost(place: GoldCase, change: HarmlessChange, got: float | str) -> str:
    return f"{place.case.name}: {change.name}: {_shown(place, change)} got {got}, not {place.paid:g}"


def _finding(
    check: str, places: Sequence[GoldCase], tried: int, wrong: list[tuple[str, str]], allowed: set[str], fine: str
) -> AuditFinding:
    if not tried:
        return AuditFinding(check, True, NOT_MEASURED + "no case whose gold has a place in its text", {"tried": 0})
    names = list(dict.fromkeys(name for name, _ in wrong))
    forms = ", ".join(dict.fromkeys(place.gold.form for place in places))
    why = "".join(f"; but {one}" for one in sorted(allowed))
    if not wrong:
        return AuditFinding(check, True, f"{tried} ({forms}) {fine}{why}", {"tried": tried, "wrong": 0})
    first = {name: result for name, result in reversed(wrong)}
    detail = f"{len(wrong)} of {tried} ({', '.join(names)}): " + "; ".join(first[name] for name in names[:4])
    return AuditFinding(check, False, detail, {"tried": tried, "wrong": len(wrong)})


def _shown(place: GoldCase, change: HarmlessChange) -> str:
    """The place where it differs from the right answer."""
    if place.gold.form == "calls":
        return repr(str(next((one for one in change.output if one not in place.output), ""))[:160])
    text = items.last_assistant_text(change.output)
    start = max(0, place.gold.start - 20) if len(text) > 90 else 0
    with contextlib.suppress(StopIteration):
        pairs = enumerate(zip(text, place.gold.text, strict=False))
        start = max(0, next(at for at, (one, two) in pairs if one != two) - 30) if len(text) > 90 else 0
    return repr(text[start : start + 90])
