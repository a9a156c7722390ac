"""Ids that the calls of a truth name and no table has: the sign of a row that was made for other tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from office.desk import Office
from office.outcome import read_arguments
from office.toolbox import CHANGING, run_tool
from office.truth import Calls


class Lacking(NamedTuple):
    """`calls[index]` names `id` as its argument `name`, and `file` has no such row."""

    index: int
    name: str
    id: str
    file: str


FILES = {
    "email_id": "emails.csv",
    "event_id": "calendar_events.csv",
    "visitor_id": "analytics_data.csv",
    "task_id": "project_tasks.csv",
    "customer_id": "customer_relationship_manager_data.csv",
}


def find_lacking(office: Office, calls: Calls) -> Iterator[Lacking]:
    """`office` is a fresh one, and the calls change it: an id that one of them brings in is there from then on."""
    for index, (name, text) in enumerate(calls):
        arguments = read_arguments(text) or {}
        for argument, value in arguments.items():
            if argument in FILES and not _has(office, argument, value):
                yield Lacking(index, argument, str(value), FILES[argument])
        if name in CHANGING:
            run_tool(office, name, arguments)


def _has(office: Office, argument: str, value: Any) -> bool:
    if argument == "visitor_id":
        return any(row[argument] == value for row in office.seed.visits)
    tables = {"email_id": office.emails, "event_id": office.events, "task_id": office.tasks}
    return tables.get(argument, office.customers).has(argument, value)
