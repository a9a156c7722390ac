"""Writes the office's tables and the example rows: invented people, the same bytes on every run.

python make_data.py [FOLDER]     # default: data, beside this file
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from example_rows import make_rows
from office.desk import CUSTOMER_COLUMNS, EMAIL_COLUMNS, EVENT_COLUMNS, TASK_COLUMNS, VISIT_COLUMNS

DOMAIN = "tidemark.example"
SIZES = {"emails": 500, "events": 300, "visits": 1000, "tasks": 300, "customers": 200}
PEOPLE = (
    *(
        "amara.okafor",
        "bram.devries",
        "chiara.moretti",
        "daniyar.bekov",
        "elif.kaya",
        "farid.haddad",
        "greta.lindqvist",
    ),
    *("hiro.tanabe", "ines.carvalho", "jonas.weber", "kavya.reddy", "lucia.ortega", "mateo.silva", "noor.rahman"),
    *("oskar.nowak", "petra.horvat", "quentin.dubois", "rosa.jimenez", "soren.madsen", "tala.nasser"),
)
EVENTS = (
    *("Sprint planning", "Design critique", "Budget check-in", "Hiring sync", "Customer call", "Release rehearsal"),
    *("Data review", "Onboarding", "Roadmap session", "Security briefing", "Team lunch", "Retrospective"),
    *("One to one", "Press preparation", "Contract walkthrough", "Incident follow-up", "Research exchange", "Demo"),
)
TOPICS = (
    ("Warehouse move", "the new shelves arrive on Tuesday, and the labels still have to be printed"),
    ("Autumn campaign", "the first drafts are in the shared folder and need a second pair of eyes"),
    ("Invoice of the caterer", "the amount is higher than agreed, so please do not pay it before we have talked"),
    ("Visit of the auditors", "they want to see the access lists and the minutes of the last two quarters"),
    ("Login problems", "three customers wrote that the reset link expires before the mail reaches them"),
    ("Team offsite", "the cabin by the lake is free in spring, but we have to decide this week"),
    ("Pricing page", "the numbers in the table do not match the ones in the offer we sent"),
    ("Translation backlog", "the Polish and Arabic texts are done, the Portuguese ones are half way"),
    ("Backup drill", "restoring took forty minutes, which is ten more than we promised"),
    ("Trainee programme", "two of the four candidates accepted and would like to start in January"),
    ("Printer on the third floor", "it eats paper again and the service wants a photo of the serial number"),
    ("Survey results", "most people like the new desk plan, the phone booths are too warm"),
)
VERBS = ("Fix", "Write", "Review", "Design", "Measure", "Simplify", "Document", "Test", "Replace", "Speed up")
THINGS = {
    "Back end": ("the export job", "the payment retries", "the search index", "the rate limits", "the audit log"),
    "Front end": ("the settings form", "the sign-up flow", "the empty states", "the dark theme", "the date picker"),
    "Design": ("the icon set", "the onboarding pictures", "the colour tokens", "the print layout", "the error pages"),
}
LISTS = ("Backlog", "In Progress", "In Review", "Completed")
FIRST = ("Ada", "Ben", "Cora", "Dev", "Edda", "Finn", "Gil", "Hana", "Ivo", "June", "Kit", "Lena", "Milo", "Nia")
LAST = ("Abbott", "Brandt", "Castel", "Dorn", "Eklund", "Fabre", "Gallo", "Hale", "Iyer", "Jansen", "Kerr", "Lund")
PRODUCTS = ("Software", "Hardware", "Services", "Consulting", "Training")
STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
NOTES = ("Prefers to be called", "Asked for a discount", "Wants a demo", "Decides next quarter", "Met at the fair")
SOURCES = ("direct", "referral", "search engine", "social media")
TODAY = datetime(2023, 11, 30)


def main(argv: list[str]) -> int:
    folder = Path(argv[0]) if argv else Path(__file__).parent / "data"
    tables = folder / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    _write(tables / "emails.csv", EMAIL_COLUMNS, make_emails(Random("emails")))
    _write(tables / "calendar_events.csv", EVENT_COLUMNS, make_events(Random("events")))
    _write(tables / "analytics_data.csv", VISIT_COLUMNS, make_visits(Random("visits")))
    _write(tables / "project_tasks.csv", TASK_COLUMNS, make_tasks(Random("tasks")))
    customers = make_customers(Random("customers"))
    _write(tables / "customer_relationship_manager_data.csv", CUSTOMER_COLUMNS, customers)
    (tables / "email_addresses.csv").write_text("".join(f"{_address(name)}\n" for name in PEOPLE), "utf-8")
    rows = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in make_rows(tables))
    (folder / "example.jsonl").write_text(rows, "utf-8")
    return 0


def make_emails(dice: Random) -> Iterator[dict[str, Any]]:
    minutes = sorted(dice.sample(range(60 * 24 * 60), SIZES["emails"]))  # sixty days up to today
    for number, minute in enumerate(minutes):
        person = _pick(dice, PEOPLE)
        (subject, fact), outgoing = _pick(dice, TOPICS), dice.random() < 0.4
        reader, writer = ("colleague", person) if not outgoing else (person, "colleague")
        sent = TODAY - timedelta(days=60) + timedelta(minutes=minute, seconds=dice.randrange(60))
        yield {
            "email_id": f"{number:08}",
            "inbox/outbox": "outbox" if outgoing else "inbox",
            "sender/recipient": _address(person),
            "subject": f"{subject} ({number // len(TOPICS) + 1})",
            "sent_datetime": f"{sent:%Y-%m-%d %H:%M:%S}",
            "body": f"Dear {_first(reader)},\n\na word about this: {fact}.\n\nBest wishes,\n{_first(writer)}",
        }


def make_events(dice: Random) -> Iterator[dict[str, Any]]:
    for number in range(SIZES["events"]):
        day = TODAY - timedelta(days=30) + timedelta(days=number * 60 // SIZES["events"])
        start = day + timedelta(minutes=9 * 60 + 30 * dice.randrange(17))
        yield {
            "event_id": f"{number:08}",
            "event_name": _pick(dice, EVENTS),
            "participant_email": _address(_pick(dice, PEOPLE)),
            "event_start": f"{start:%Y-%m-%d %H:%M:%S}",
            "duration": str(30 * (1 + dice.randrange(4))),
        }


def make_visits(dice: Random) -> Iterator[dict[str, Any]]:
    for number in range(SIZES["visits"]):
        day = TODAY - timedelta(days=90) + timedelta(days=(number + 1) * 90 // SIZES["visits"])
        pages = 1 + dice.randrange(20)
        yield {
            "date_of_visit": f"{day:%Y-%m-%d}",
            "visitor_id": f"{1000 + dice.randrange(9000)}",
            "page_views": str(pages),
            "session_duration_seconds": str(pages * (3 + dice.randrange(30))),
            "traffic_source": _pick(dice, SOURCES),
            "user_engaged": str(pages > 8),
        }


def make_tasks(dice: Random) -> Iterator[dict[str, Any]]:
    boards = tuple(THINGS)
    for number in range(SIZES["tasks"]):
        board = _pick(dice, boards)
        due = TODAY + timedelta(days=dice.randrange(-10, 30))
        yield {
            "task_id": f"{number:08}",
            "task_name": f"{_pick(dice, VERBS)} {_pick(dice, THINGS[board])}",
            "assigned_to_email": _address(PEOPLE[number % 15]),  # the rest of the company has no tasks
            "list_name": _pick(dice, LISTS),
            "due_date": f"{due:%Y-%m-%d}",
            "board": board,
        }


def make_customers(dice: Random) -> Iterator[dict[str, Any]]:
    names = [f"{first} {last}" for first in FIRST for last in LAST]
    names += [f"{first} {one}-{other}" for first in FIRST for one, other in zip(LAST, LAST[1:], strict=False)]
    for number, name in enumerate(dice.sample(names, SIZES["customers"])):
        contact = TODAY - timedelta(days=dice.randrange(120))
        follow_up = TODAY + timedelta(days=dice.randrange(-20, 45))
        yield {
            "customer_id": f"{number:08}",
            "assigned_to_email": _address(PEOPLE[10 + dice.randrange(10)]),
            "customer_name": name,
            "customer_email": f"{name.lower().replace(' ', '.')}@mail.example",
            "customer_phone": f"555-01{number:03}" if number % 2 else "",
            "last_contact_date": f"{contact:%Y-%m-%d} 23:59:00",
            "product_interest": _pick(dice, PRODUCTS),
            "status": _pick(dice, STATUSES),
            "follow_up_by": f"{follow_up:%Y-%m-%d} 23:59:00",
            "notes": "" if number % 9 in (3, 7) else f"{contact:%Y-%m-%d}: {_pick(dice, NOTES)}.",
        }


def _pick(dice: Random, choices: tuple[Any, ...]) -> Any:
    return choices[dice.randrange(len(choices))]


def _address(person: str) -> str:
    return f"{person}@{DOMAIN}"


def _first(person: str) -> str:
    return person.partition(".")[0].capitalize()


def _write(path: Path, columns: tuple[str, ...], rows: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
