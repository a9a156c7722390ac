"""One rollout's office: the shared seed, and the tables as this rollout has changed them so far."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from gym.errors import UserError
from office.table import Row, Table

NOW = "2023-11-30 23:59:00"  # the office's clock stands still
EMAIL_COLUMNS = ("email_id", "inbox/outbox", "sender/recipient", "subject", "sent_datetime", "body")
EVENT_COLUMNS = ("event_id", "event_name", "participant_email", "event_start", "duration")
VISIT_COLUMNS = (
    *("date_of_visit", "visitor_id", "page_views"),
    *("session_duration_seconds", "traffic_source", "user_engaged"),
)
TASK_COLUMNS = ("task_id", "task_name", "assigned_to_email", "list_name", "due_date", "board")
CUSTOMER_COLUMNS = (
    *("customer_id", "assigned_to_email", "customer_name", "customer_email", "customer_phone"),
    *("last_contact_date", "product_interest", "status", "follow_up_by", "notes"),
)
_EMPTY = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "n/a"))


@dataclass(frozen=True, slots=True)
class Seed:
    emails: Table
    events: Table
    visits: tuple[Row, ...]
    tasks: Table
    customers: Table
    addresses: tuple[str, ...]


@dataclass(slots=True)
class Office:
    seed: Seed
    emails: Table
    events: Table
    plots: Table
    tasks: Table
    customers: Table

    @classmethod
    def open(cls, seed: Seed) -> Office:
        return cls(seed, seed.emails, seed.events, NO_PLOTS, seed.tasks, seed.customers)


NO_PLOTS = Table.seed(("file_path",), [])


def load_seed(folder: Path) -> Seed:
    """The six files in one folder, or in its `processed` and `raw`, as NeMo Gym's checkout has them."""
    visits = _load(_find(folder, "analytics_data.csv"), VISIT_COLUMNS).rows
    addresses = _read(_find(folder, "email_addresses.csv")).splitlines()
    return Seed(
        emails=_load(_find(folder, "emails.csv"), EMAIL_COLUMNS),
        events=_load(_find(folder, "calendar_events.csv"), EVENT_COLUMNS),
        visits=tuple({**row, "user_engaged": row["user_engaged"] == "True"} for row in visits),
        tasks=_load(_find(folder, "project_tasks.csv"), TASK_COLUMNS),
        customers=_load(_find(folder, "customer_relationship_manager_data.csv"), CUSTOMER_COLUMNS),
        addresses=tuple(address.strip() for address in addresses if address.strip()),
    )


def _find(folder: Path, name: str) -> Path:
    places = (folder / name, folder / "processed" / name, folder / "raw" / name)
    return next((path for path in places if path.is_file()), places[0])


def _load(path: Path, columns: tuple[str, ...]) -> Table:
    reader = csv.DictReader(_read(path).splitlines(keepends=True))
    missing = set(columns) - set(reader.fieldnames or ())
    if missing:
        raise UserError(
            f"{path} has no column {', '.join(sorted(missing))}", f"give it the columns {', '.join(columns)}"
        )
    names = tuple(reader.fieldnames or ())
    rows = [{name: None if row[name] in _EMPTY else row[name] for name in names} for row in reader]
    return Table.seed(names, rows)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "run make_data.py in the server's folder, or point `tables` at a folder that holds the six files"
        raise UserError(f"the table {path} cannot be read: {error}", hint) from None
