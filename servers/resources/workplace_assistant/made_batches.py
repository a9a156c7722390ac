"""Tasks of several changes, and tasks in which what is to be done hangs on what the tables say."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from made_tasks import (
    TODAY,
    VALUE_WORDS,
    Call,
    Desk,
    Maker,
    Task,
    find,
    first_name,
    in_one_domain,
    make_plot,
    search_emails,
    search_events,
)
from office.customers import PRODUCTS, STATUSES
from office.table import Row
from office.tasks import BOARDS, LISTS
from office.visits import PLOTS, VALUES

BULK: Final = range(2, 6)  # so many changes at once

# Several changes of one kind.


def delete_emails(desk: Desk) -> Task | None:
    who = desk.colleague()
    since = (TODAY - timedelta(days=desk.random.randint(3, 40))).isoformat()
    emails = [one for one in desk.emails(who) if one["sent_datetime"] >= since]
    calls: list[Call] = [("email_delete_email", {"email_id": one["email_id"]}) for one in emails]
    text = f"delete every email that {first_name(who)} sent me on {since} or later"
    return in_one_domain("email", text, [search_emails(who)], calls) if len(calls) in BULK else None


def cancel_events(desk: Desk) -> Task | None:
    who, until = desk.colleague(), desk.day(3, 29)
    events = [one for one in desk.events(who) if one["event_start"][:10] <= until]
    calls: list[Call] = [("calendar_delete_event", {"event_id": one["event_id"]}) for one in events]
    text = f"cancel all my meetings with {first_name(who)} from tomorrow up to {until}, that day included"
    return in_one_domain("calendar", text, [search_events(who)], calls) if len(calls) in BULK else None


def move_tasks(desk: Desk) -> Task | None:
    who, place = desk.colleague(with_tasks=True), desk.random.choice(LISTS)
    target = desk.other(LISTS, place)
    text = f"move all of {first_name(who)}'s tasks that are in {place} to {target}"
    return _tasks(text, who, desk.tasks(who, list_name=place), "list_name", target)


def hand_over_tasks(desk: Desk) -> Task | None:
    who, to = desk.colleague(with_tasks=True), desk.colleague(with_tasks=True)
    board, place = desk.random.choice(BOARDS), desk.random.choice(LISTS)
    if who == to:
        return None
    text = f"give {first_name(who)}'s tasks on the {board} board that are in {place} to {first_name(to)}"
    task = _tasks(text, who, desk.tasks(who, board=board, list_name=place), "assigned_to_email", to)
    return task and task._replace(lookups=(find(to), *task.lookups))


def _tasks(text: str, who: str, tasks: list[Row], field: str, value: str) -> Task | None:
    changes = [{"task_id": one["task_id"], "field": field, "new_value": value} for one in tasks]
    calls: list[Call] = [("project_management_update_task", change) for change in changes]
    search = ("project_management_search_tasks", {"assigned_to_email": who})
    return in_one_domain("project_management", text, [find(who), search], calls) if len(calls) in BULK else None


def hand_over_customers(desk: Desk) -> Task | None:
    who, to = desk.colleague(), desk.colleague()
    status = desk.random.choice(STATUSES)
    if who == to:
        return None
    text = f"assign all of {first_name(who)}'s customers whose status is {status} to {first_name(to)}"
    task = _customers(text, who, desk.customers(who, status=status), "assigned_to_email", to)
    return task and task._replace(lookups=(find(to), *task.lookups))


def close_customers(desk: Desk) -> Task | None:
    who, product, status = desk.colleague(), desk.random.choice(PRODUCTS), desk.random.choice(STATUSES)
    target = desk.other(STATUSES, status)
    rows = desk.customers(who, product_interest=product, status=status)
    text = f"set {first_name(who)}'s customers with status {status} who are interested in {product} to {target}"
    return _customers(text, who, rows, "status", target)


def follow_up(desk: Desk) -> Task | None:
    who, product, day = desk.colleague(), desk.random.choice(PRODUCTS), desk.day(50, 200)
    text = f"set the follow-up day of {first_name(who)}'s customers who are interested in {product} to {day}"
    return _customers(text, who, desk.customers(who, product_interest=product), "follow_up_by", day)


def _customers(text: str, who: str, rows: list[Row], field: str, value: str) -> Task | None:
    changes = [{"customer_id": one["customer_id"], "field": field, "new_value": value} for one in rows]
    calls: list[Call] = [("customer_relationship_manager_update_customer", change) for change in changes]
    search = ("customer_relationship_manager_search_customers", {"assigned_to_email": who, "page_size": 100})
    return in_one_domain("customer_relationship_manager", text, [search], calls) if len(calls) in BULK else None


def plots(desk: Desk) -> Task:
    first = TODAY - timedelta(days=desk.random.randint(10, 90))
    last, kind = first + timedelta(days=desk.random.randint(3, 60)), desk.random.choice(PLOTS)
    values = desk.random.sample(VALUES, desk.random.randint(2, 3))
    parts = " and of ".join(VALUE_WORDS[value] for value in values)
    text = f"make {kind} plots of {parts}, one each, from {first} to {last}"
    return in_one_domain(
        "analytics", text, [], [make_plot(first.isoformat(), last.isoformat(), value, kind) for value in values]
    )


# What is to be done hangs on what the tables say.


def if_busy(desk: Desk) -> Task:
    """A limit near the number, so that it has to be counted."""
    who, place = desk.colleague(with_tasks=True), desk.random.choice(LISTS)
    tasks, many, few = len(desk.tasks(who, list_name=place)), desk.name(), desk.name()
    limit = max(0, tasks + desk.random.randint(-2, 1))
    subject, body = many if tasks > limit else few, desk.text()
    text = (
        f"write {first_name(who)} an email with the text '{body}'; its subject is '{many}' if {first_name(who)} has "
        f"more than {limit} tasks in {place}, else '{few}'"
    )
    call = ("email_send_email", {"recipient": who, "subject": subject, "body": body})
    search = ("project_management_search_tasks", {"assigned_to_email": who, "list_name": place})
    return Task(frozenset(("email", "project_management")), text, (find(who), search), (call,))


def if_visited(desk: Desk) -> Task:
    visits: dict[str, int] = {}
    for one in desk.seed.visits:
        visits[one["date_of_visit"]] = visits.get(one["date_of_visit"], 0) + 1
    day = desk.random.choice(list(visits))
    limit = visits[day] + desk.random.randint(-2, 1)
    value, yes, no = desk.random.choice(VALUES), *desk.random.sample(PLOTS, 2)
    text = (
        f"make a plot of {VALUE_WORDS[value]} from {day} to {TODAY}: a {yes} plot if there were more than {limit} "
        f"visits on {day}, else a {no} plot"
    )
    call = make_plot(day, TODAY.isoformat(), value, yes if visits[day] > limit else no)
    lookup = ("analytics_total_visits_count", {"time_min": day, "time_max": day})
    return Task(frozenset(("analytics",)), text, (lookup,), (call,))


def tell_owner(desk: Desk) -> Task:
    customer, subject, body = desk.random.choice(desk.seed.customers.rows), desk.name(), desk.text()
    text = (
        f"find out who looks after the customer {customer['customer_name']}, and write that colleague an email "
        f"with the subject '{subject}' and the text '{body}'"
    )
    arguments = {"recipient": customer["assigned_to_email"], "subject": subject, "body": body}
    search = ("customer_relationship_manager_search_customers", {"customer_name": customer["customer_name"]})
    domains = frozenset(("email", "customer_relationship_manager"))
    return Task(domains, text, (search,), (("email_send_email", arguments),))


def meet_owner(desk: Desk) -> Task | None:
    customer, name, day = desk.random.choice(desk.seed.customers.rows), desk.name(), desk.day()
    hour, who = desk.random.randint(9, 17), customer["assigned_to_email"]
    text = (
        f"book '{name}' on {day} at {hour}:00 for 30 minutes with the colleague who is responsible for the customer "
        f"{customer['customer_name']}"
    )
    start = f"{day} {hour:02}:00:00"
    arguments = {"event_name": name, "participant_email": who, "event_start": start, "duration": "30"}
    search = ("customer_relationship_manager_search_customers", {"customer_name": customer["customer_name"]})
    domains = frozenset(("calendar", "customer_relationship_manager"))
    return Task(domains, text, (search,), (("calendar_create_event", arguments),))


SEVERAL: Final[tuple[Maker, ...]] = (
    *(delete_emails, cancel_events, move_tasks, hand_over_tasks),
    *(hand_over_customers, close_customers, follow_up, plots),
)
CONDITIONAL: Final[tuple[Maker, ...]] = (if_busy, if_visited, tell_owner, meet_owner)
