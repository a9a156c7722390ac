"""Refuses a row whose expected calls fail on these tables or change nothing: it would pay for no work.

It is the row's fault, or that of tables which are not the row's own: never the policy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from office.desk import Office, Seed
from office.outcome import changed_tables, differing, read_arguments
from office.toolbox import CHANGING, PLACES, run_tool

Calls = Sequence[tuple[str, str]]
_NOTHING_FOUND = "No "  # how the answer of a search begins that found nothing


class WrongTruth(Exception):
    """The message names the call and says what is wrong with it."""


def replay_truth(seed: Seed, calls: Calls, *, strict: bool) -> Office:
    """The office that the calls of the truth leave behind; WrongTruth where one of them does nothing there."""
    office = Office.open(seed)
    for name, text in calls:
        arguments = read_arguments(text)
        call = f"{name}({text[:200]})"
        if name not in PLACES or arguments is None:
            raise WrongTruth(f"{call} is not a call of a tool of this office")
        before = replace(office)
        given = {key: value for key, value in arguments.items() if value is not None or not strict}
        _refuse_idle(call, name, run_tool(office, name, given), before, office, strict)
    if any(name in CHANGING for name, _ in calls) and not differing(office, Office.open(seed), strict=strict):
        raise WrongTruth(f"{calls[0][0]}({calls[0][1][:200]}) and the calls after it undo one another: nothing changes")
    return office


def _refuse_idle(call: str, name: str, said: Any, before: Office, after: Office, strict: bool) -> None:
    if name in CHANGING and not changed_tables(before, after, strict=strict):
        raise WrongTruth(f"{call} changes nothing: {_text(said)}")
    if name not in CHANGING and isinstance(said, str) and not said.startswith(_NOTHING_FOUND):
        raise WrongTruth(f"{call} fails: {_text(said)}")


def _text(said: Any) -> str:
    return str(said)[:200].rstrip(".")
