"""Tasks over the office's tables: what is asked, which searches show what is needed, and the calls that do it.

A task is None where the tables have not what it needs. Every value that a call writes stands in the request.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from random import Random
from typing import Any, Final, NamedTuple

from office.customers import PRODUCTS, STATUSES
from office.desk import NOW, Seed
from office.table import Row
from office.tasks import BOARDS, LISTS
from office.visits import PLOTS, VALUES

from gym.server.words import person, phrase, sentence

Call = tuple[str, dict[str, Any]]
TODAY: Final = date(2023, 11, 30)
VALUE_WORDS: Final = {
    "total_visits": "all visits",
    "session_duration_seconds": "session durations",
    "user_engaged": "engaged users",
    "visits_direct": "direct visits",
    "visits_referral": "visits by referral",
    "visits_search_engine": "visits from search engines",
    "visits_social_media": "visits from social media",
}


class Task(NamedTuple):
    domains: frozenset[str]  # the tables that it reads or changes
    text: str
    lookups: tuple[Call, ...]
    calls: tuple[Call, ...]


class Desk:
    """The tables, as the tasks look at them."""

    def __init__(self, seed: Seed, random: Random) -> None:
        self.seed, self.random = seed, random

    def colleague(self, *, with_tasks: bool = False) -> str:
        owners = {row["assigned_to_email"] for row in self.seed.tasks.rows}
        return self.random.choice([one for one in self.seed.addresses if one in owners or not with_tasks])

    def emails(self, address: str) -> list[Row]:
        return [
            one
            for one in self.seed.emails.rows
            if one["sender/recipient"] == address and one["inbox/outbox"] == "inbox"
        ]

    def events(self, address: str) -> list[Row]:
        """Those to come, the next one first."""
        coming = [
            one for one in self.seed.events.rows if one["participant_email"] == address and one["event_start"] > NOW
        ]
        return sorted(coming, key=lambda one: str(one["event_start"]))

    def tasks(self, address: str, **wanted: str) -> list[Row]:
        return [one for one in self.seed.tasks.rows if _has(one, assigned_to_email=address, **wanted)]

    def customers(self, address: str, **wanted: str) -> list[Row]:
        return [one for one in self.seed.customers.rows if _has(one, assigned_to_email=address, **wanted)]

    def day(self, first: int = 1, last: int = 120) -> str:
        return (TODAY + timedelta(days=self.random.randint(first, last))).isoformat()

    def other(self, choices: tuple[str, ...], taken: str) -> str:
        return self.random.choice([one for one in choices if one != taken])

    def text(self) -> str:
        return sentence(self.random)

    def name(self) -> str:
        return phrase(self.random).replace("-", " ").capitalize()


Maker = Callable[[Desk], Task | None]


def first_name(address: str) -> str:
    return address.partition(".")[0].capitalize()


def find(address: str) -> Call:
    return "company_directory_find_email_address", {"name": first_name(address)}


def _has(row: Row, **wanted: str) -> bool:
    return all(row[column] == value for column, value in wanted.items())


def search_emails(address: str) -> Call:
    return "email_search_emails", {"query": address, "page_size": 100}


def search_events(address: str) -> Call:
    return "calendar_search_events", {"query": address, "time_min": NOW, "page_size": 100}


def in_one_domain(domain: str, text: str, lookups: list[Call], calls: list[Call]) -> Task:
    return Task(frozenset((domain,)), text, tuple(lookups), tuple(calls))


def reply(desk: Desk) -> Task | None:
    who = desk.colleague()
    if not (emails := desk.emails(who)):
        return None
    body = desk.text()
    call = ("email_reply_email", {"email_id": emails[-1]["email_id"], "body": body})
    return in_one_domain(
        "email", f"answer the last email that {first_name(who)} sent me with '{body}'", [search_emails(who)], [call]
    )


def forward(desk: Desk) -> Task | None:
    who, to = desk.colleague(), desk.colleague()
    if who == to or not (emails := desk.emails(who)):
        return None
    email = desk.random.choice(emails)
    text = f"forward the email from {first_name(who)} with the subject '{email['subject']}' to {first_name(to)}"
    if sum(one["subject"] == email["subject"] for one in emails) > 1:
        return None
    call = ("email_forward_email", {"email_id": email["email_id"], "recipient": to})
    return in_one_domain("email", text, [search_emails(who), find(to)], [call])


def send(desk: Desk) -> Task:
    who, subject, body = desk.colleague(), desk.name(), desk.text()
    text = f"write an email to {first_name(who)} with the subject '{subject}' and the text '{body}'"
    call = ("email_send_email", {"recipient": who, "subject": subject, "body": body})
    return in_one_domain("email", text, [find(who)], [call])


def book(desk: Desk) -> Task:
    who, name, day = desk.colleague(), desk.name(), desk.day()
    hour, length = desk.random.randint(9, 16), desk.random.choice((30, 45, 60, 90))
    text = f"book '{name}' with {first_name(who)} on {day} at {hour}:00, {length} minutes long"
    start = f"{day} {hour:02}:00:00"
    arguments = {"event_name": name, "participant_email": who, "event_start": start, "duration": str(length)}
    return in_one_domain("calendar", text, [find(who)], [("calendar_create_event", arguments)])


def move_next(desk: Desk) -> Task | None:
    who = desk.colleague()
    events = desk.events(who)
    if not events or _is_first_twice(events):
        return None
    day, hour = desk.day(31), desk.random.randint(9, 17)
    change = {"event_id": events[0]["event_id"], "field": "event_start", "new_value": f"{day} {hour:02}:30:00"}
    text = f"move my next meeting with {first_name(who)} to {day}, {hour}:30"
    return in_one_domain("calendar", text, [search_events(who)], [("calendar_update_event", change)])


def rename_next(desk: Desk) -> Task | None:
    who, name = desk.colleague(), desk.name()
    events = desk.events(who)
    if not events or _is_first_twice(events):
        return None
    change = {"event_id": events[0]["event_id"], "field": "event_name", "new_value": name}
    text = f"give my next meeting with {first_name(who)} the name '{name}'"
    return in_one_domain("calendar", text, [search_events(who)], [("calendar_update_event", change)])


def _is_first_twice(events: list[Row]) -> bool:
    return len(events) > 1 and events[0]["event_start"] == events[1]["event_start"]


def make_task(desk: Desk) -> Task:
    who, name, day = desk.colleague(with_tasks=True), desk.name(), desk.day()
    board, place = desk.random.choice(BOARDS), desk.random.choice(LISTS[:2])
    text = f"put a task '{name}' for {first_name(who)} on the {board} board, in {place}, due on {day}"
    arguments = {"task_name": name, "assigned_to_email": who, "list_name": place, "due_date": day, "board": board}
    return in_one_domain("project_management", text, [find(who)], [("project_management_create_task", arguments)])


def postpone_task(desk: Desk) -> Task | None:
    who = desk.colleague(with_tasks=True)
    task, day = desk.random.choice(desk.tasks(who)), desk.day(31)
    if len(desk.tasks(who, task_name=task["task_name"])) > 1:
        return None
    change = {"task_id": task["task_id"], "field": "due_date", "new_value": day}
    text = f"set the due date of {first_name(who)}'s task '{task['task_name']}' to {day}"
    search = ("project_management_search_tasks", {"assigned_to_email": who})
    return in_one_domain("project_management", text, [find(who), search], [("project_management_update_task", change)])


def note_customer(desk: Desk) -> Task:
    customer, note = desk.random.choice(desk.seed.customers.rows), desk.text()
    text = f"replace the notes on the customer {customer['customer_name']} by '{note}'"
    return _customer(text, customer, "notes", note)


def phone_customer(desk: Desk) -> Task:
    customer, phone = desk.random.choice(desk.seed.customers.rows), f"555-{desk.random.randrange(2000, 99999):05}"
    text = f"enter {phone} as the new phone number of the customer {customer['customer_name']}"
    return _customer(text, customer, "customer_phone", phone)


def _customer(text: str, customer: Row, field: str, value: str) -> Task:
    search = ("customer_relationship_manager_search_customers", {"customer_name": customer["customer_name"]})
    change = {"customer_id": customer["customer_id"], "field": field, "new_value": value}
    update = ("customer_relationship_manager_update_customer", change)
    return in_one_domain("customer_relationship_manager", text, [search], [update])


def add_customer(desk: Desk) -> Task:
    who, name = desk.colleague(), person(desk.random)
    status, product = desk.random.choice(STATUSES), desk.random.choice(PRODUCTS)
    email = f"{name.lower().replace(' ', '.')}@mail.example"
    text = f"add {name} ({email}) to {first_name(who)}'s customers, with status {status} and interested in {product}"
    arguments = {"customer_name": name, "assigned_to_email": who, "status": status, "customer_email": email}
    call = ("customer_relationship_manager_add_customer", {**arguments, "product_interest": product})
    return in_one_domain("customer_relationship_manager", text, [find(who)], [call])


def plot(desk: Desk) -> Task:
    first = TODAY - timedelta(days=desk.random.randint(10, 90))
    last = first + timedelta(days=desk.random.randint(3, 60))
    value, kind = desk.random.choice(VALUES), desk.random.choice(PLOTS)
    text = f"make a {kind} plot of {VALUE_WORDS[value]} from {first} to {last}"
    return in_one_domain("analytics", text, [], [make_plot(first.isoformat(), last.isoformat(), value, kind)])


def make_plot(first: str, last: str, value: str, kind: str) -> Call:
    return "analytics_create_plot", {"time_min": first, "time_max": last, "value_to_plot": value, "plot_type": kind}


ONE: Final[tuple[Maker, ...]] = (
    *(reply, forward, send, book, move_next, rename_next, make_task, postpone_task),
    *(note_customer, phone_customer, add_customer, plot),
)
