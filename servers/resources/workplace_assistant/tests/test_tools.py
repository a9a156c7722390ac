"""What each tool answers and leaves behind."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from make_data import SIZES, main
from office.dates import read_time
from office.desk import Office, load_seed
from office.matching import RiskyPattern, contains
from office.toolbox import run_tool

DATA = Path(__file__).parents[1] / "data"
SEED = load_seed(DATA / "tables")
NOOR = "noor.rahman@tidemark.example"
EVENT = {"event_name": "Walk", "participant_email": NOOR.upper(), "event_start": "2023-12-05 10:00", "duration": "30"}
TASK = {"task_name": "T", "assigned_to_email": "amara.okafor@tidemark.example", "due_date": "2023-12-01"}


class Desk:
    """An office and what its tools say."""

    def __init__(self) -> None:
        self.office = Office.open(SEED)

    def __call__(self, tool: str, **arguments: Any) -> Any:
        return run_tool(self.office, tool, arguments)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_the_script_writes_the_tables_that_are_here(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    for path in (*(DATA / "tables").iterdir(), DATA / "example.jsonl"):
        assert (tmp_path / path.relative_to(DATA)).read_bytes() == path.read_bytes(), path.name


def test_the_tables_have_the_sizes_that_are_promised() -> None:
    sizes = {name: len(getattr(SEED, name)) for name in SIZES}
    assert sizes == SIZES == {"emails": 500, "events": 300, "visits": 1000, "tasks": 300, "customers": 200}
    assert len(SEED.addresses) == 20
    assert sum(row["customer_phone"] is None for row in SEED.customers.rows) == 100
    assert sum(row["notes"] is None for row in SEED.customers.rows) == 44


def test_the_directory_finds_addresses_by_a_part_of_a_name(desk: Desk) -> None:
    assert desk("company_directory_find_email_address", name="NOOR") == [NOOR]
    assert desk("company_directory_find_email_address", name="n..r.r") == [NOOR]
    assert len(desk("company_directory_find_email_address", name="tidemark")) == 20
    assert desk("company_directory_find_email_address") == "Name not provided."


def test_a_new_email_is_numbered_without_zeros_in_front(desk: Desk) -> None:
    sent = desk("email_send_email", recipient=NOOR.upper(), subject="S", body="B")
    assert sent == "Email sent successfully."
    assert desk("email_forward_email", email_id="500", recipient="a@b.c") == "Email forwarded successfully."
    assert desk("email_reply_email", email_id="00000004", body="R") == "Email replied successfully."
    new = desk.office.emails.rows[500:]
    assert [(row["email_id"], row["sender/recipient"], row["subject"]) for row in new] == [
        ("500", NOOR, "S"),
        ("501", "a@b.c", "FW: S"),
        ("502", SEED.emails.rows[4]["sender/recipient"], f"RE: {SEED.emails.rows[4]['subject']}"),
    ]
    assert {row["sent_datetime"] for row in new} == {"2023-11-30 23:59:00"}


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("email_send_email", {"recipient": "noor", "subject": "S", "body": "B"}, "Invalid recipient email address."),
        ("email_send_email", {"recipient": NOOR}, "Recipient, subject, or body not provided."),
        ("email_delete_email", {"email_id": "x"}, "Email not found."),
        ("email_search_emails", {"query": "zebra"}, "No emails found."),
        ("email_search_emails", {"page_size": "many"}, "Error searching emails: "),
        ("email_search_emails", {"date_min": "soon"}, "Error searching emails: could not convert"),
        ("calendar_get_event_information_by_id", {"event_id": "7", "field": "duration"}, "Invalid event ID format."),
        ("calendar_get_event_information_by_id", {"event_id": "00000007", "field": "x"}, "Invalid field. Available"),
        ("calendar_create_event", {**EVENT, "event_start": "soon"}, "Invalid event_start format."),
        ("calendar_create_event", {**EVENT, "duration": "-5"}, "Duration must be a positive number of minutes."),
        ("calendar_create_event", {**EVENT, "duration": "long"}, "Invalid duration format."),
        ("calendar_update_event", {"event_id": "00000007", "field": "event_id", "new_value": "x"}, "Invalid field."),
        ("calendar_search_events", {"time_min": "soon"}, "Invalid time_min format."),
        ("calendar_search_events", {"query": "zebra"}, "No events found."),
        ("analytics_create_plot", {"time_min": "a", "time_max": "b", "value_to_plot": "x"}, "Value to plot must be"),
        ("analytics_get_visitor_information_by_id", {"visitor_id": "1"}, "Visitor not found."),
        ("project_management_search_tasks", {}, "No search parameters provided."),
        ("project_management_search_tasks", {"assigned_to_email": "noor"}, "Invalid email format"),
        ("project_management_create_task", {"task_name": "x"}, "Missing task details."),
        ("project_management_create_task", {**TASK, "list_name": "x", "board": "Design"}, "List not valid."),
        ("project_management_create_task", {**TASK, "list_name": "Backlog", "board": "x"}, "Board not valid."),
        ("project_management_update_task", {"task_id": "00000001", "field": "x", "new_value": "y"}, "Field not valid."),
        ("customer_relationship_manager_search_customers", {}, "No search parameters provided. Please"),
        ("customer_relationship_manager_search_customers", {"status": "zebra"}, "No customers found."),
        ("customer_relationship_manager_add_customer", {"customer_name": "x"}, "Please provide all required fields"),
        ("customer_relationship_manager_delete_customer", {"customer_id": "x"}, "Customer not found."),
    ],
)
def test_a_call_that_cannot_be_done_says_why(desk: Desk, tool: str, arguments: dict[str, Any], message: str) -> None:
    assert desk(tool, **arguments).startswith(message)
    assert desk.office == Office.open(SEED)


def test_only_who_has_a_task_is_given_one(desk: Desk) -> None:
    stranger = {**TASK, "assigned_to_email": "tala.nasser@tidemark.example", "list_name": "Backlog", "board": "Design"}
    assert desk("project_management_create_task", **stranger).startswith("Assignee email not valid.")
    assert desk("project_management_create_task", **TASK, list_name="Backlog", board="Design") == "00000300"


def test_searches_come_newest_first_and_in_pages_that_exist(desk: Desk) -> None:
    every = desk("email_search_emails", page_size=500)["emails"]
    assert [one["sent_datetime"] for one in every] == sorted((one["sent_datetime"] for one in every), reverse=True)
    last = desk("email_search_emails", page=1000)
    assert last["pagination"] == {"total_emails": 500, "page": 100, "page_size": 5, "total_pages": 100}
    assert last["emails"] == every[-5:]
    events = desk("calendar_search_events", query=NOOR, time_min="2023-12-01", page=-3)
    assert events["pagination"]["page"] == 1
    assert all(one["event_start"] > "2023-12-01" for one in events["events"])


def test_a_day_bounds_emails_whole_and_customers_by_text(desk: Desk) -> None:
    day = SEED.emails.rows[250]["sent_datetime"][:10]
    found = desk("email_search_emails", date_min=day, date_max=day, page_size=99)["emails"]
    assert {one["sent_datetime"][:10] for one in found} == {day}
    contact = SEED.customers.rows[5]["last_contact_date"]
    bound = {"customer_name": SEED.customers.rows[5]["customer_name"]}
    search = "customer_relationship_manager_search_customers"
    assert desk(search, **bound, last_contact_date_max=contact[:10]) == "No customers found."
    assert desk(search, **bound, last_contact_date_max=contact)["pagination"]["total_customers"] == 1


def test_an_event_is_numbered_with_zeros_and_its_participant_lowered(desk: Desk) -> None:
    assert desk("calendar_create_event", **EVENT) == "00000300"
    assert desk.office.events.rows[-1] == {**EVENT, "event_id": "00000300", "participant_email": NOOR}
    moved = desk("calendar_update_event", event_id="00000300", field="duration", new_value="45")
    assert moved == "Event updated successfully."
    assert desk("calendar_get_event_information_by_id", event_id="00000300", field="duration") == {"duration": "45"}


def test_the_visits_are_counted_day_by_day(desk: Desk) -> None:
    days = {"time_min": "2023-11-01", "time_max": "2023-11-02"}
    visits = [one for one in SEED.visits if "2023-11-01" <= one["date_of_visit"] <= "2023-11-02"]
    first = [one for one in visits if one["date_of_visit"] == "2023-11-01"]
    total = desk("analytics_total_visits_count", **days)
    assert list(total) == ["2023-11-01", "2023-11-02"]
    assert sum(total.values()) == len(visits)
    direct = desk("analytics_traffic_source_count", **days, traffic_source="direct")
    assert sum(direct.values()) == sum(one["traffic_source"] == "direct" for one in visits)
    engaged = desk("analytics_engaged_users_count", **days)
    assert engaged["2023-11-01"] == sum(int(one["page_views"]) > 8 for one in first)
    mean = desk("analytics_get_average_session_duration", **days)["2023-11-01"]
    assert mean == pytest.approx(sum(int(one["session_duration_seconds"]) for one in first) / len(first))


def test_a_plot_is_the_path_of_its_file(desk: Desk) -> None:
    path = desk("analytics_create_plot", time_min="a", time_max="b", value_to_plot="user_engaged", plot_type="bar")
    assert path == "plots/a_b_user_engaged_bar.png"
    assert desk.office.plots.rows == ({"file_path": path},)


def test_only_an_update_looks_at_a_customers_status(desk: Desk) -> None:
    add, update = "customer_relationship_manager_add_customer", "customer_relationship_manager_update_customer"
    assert desk(add, customer_name="N", assigned_to_email=NOOR.upper(), status="Odd") == "00000200"
    assert desk.office.customers.rows[-1]["assigned_to_email"] == NOOR
    assert desk(update, customer_id="00000200", field="status", new_value="Odd").startswith("Status not valid.")
    assert desk(update, customer_id="00000200", field="status", new_value="Won") == "Customer updated successfully."
    assert desk("customer_relationship_manager_search_customers", customer_email="@", page_size=500)["customers"]


@pytest.mark.parametrize(
    "text", ["2023-12-05", "2023-12-05T10:00:00Z", "12/05/2023", "December 5, 2023 10:00 AM", "2023"]
)
def test_points_in_time_are_read_as_people_write_them(text: str) -> None:
    assert read_time(text).year == 2023


@pytest.mark.parametrize("value", ["", "soon", "2023-13-01", "9" * 5000, 1e300])
def test_an_invalid_point_in_time_says_so(value: Any) -> None:
    with pytest.raises(ValueError, match=r"could not convert|out of bounds"):
        read_time(value)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "a*a*a*b", "(a|a)*", r"(a)\1", "(?=a)", "a{9}{9}", "a|b|c|d|e|f|g|h", "x." * 150]
)
def test_a_pattern_that_could_run_away_is_refused(pattern: str) -> None:
    with pytest.raises(RiskyPattern):
        contains(pattern)


@pytest.mark.parametrize("pattern", ["a.*b", "a+b", "[ab]+$", "(a|a)(a|a)(a|a)(a|a)(a|a)(a|a)b", "a?a?a?a?a?a?b"])
def test_a_pattern_that_is_let_through_is_quick_on_the_worst_text(pattern: str) -> None:
    begun = time.process_time()
    contains(pattern)("a" * 5_000_000)
    assert time.process_time() - begun < 5.0  # milliseconds; what runs away takes ages


def test_a_pattern_is_one_of_pythons() -> None:
    assert contains("a.c")("xABCx")
    assert not contains("a.c")(None)
    with pytest.raises(re.error):
        contains("(")
    with pytest.raises(TypeError):
        contains(5)
