"""The 27 tools as a row offers them: descriptions, arguments, which of them are required."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from office.desk import CUSTOMER_COLUMNS, EMAIL_COLUMNS, EVENT_COLUMNS, TASK_COLUMNS

_DAY, _TIME = "YYYY-MM-DD", "YYYY-MM-DD HH:MM:SS"
_PAGE = {"page": "Which page of the results", "page_size": "How many results a page has"}
_INTEGERS = frozenset(_PAGE)
_RANGE = {"time_min": f"First day, {_DAY}", "time_max": f"Last day, {_DAY}"}
_PERSON = "Email address of the colleague who is responsible"


def _one_of(*names: str) -> str:
    return "one of " + ", ".join(f"'{name}'" for name in names)


_LIST = _one_of("Backlog", "In Progress", "In Review", "Completed")
_BOARD = _one_of("Back end", "Front end", "Design")
_STATUS = _one_of("Qualified", "Won", "Lost", "Lead", "Proposal")
_PRODUCT = _one_of("Software", "Hardware", "Services", "Consulting", "Training")
_SOURCES = _one_of("direct", "referral", "search engine", "social media")
_VALUES = _one_of(
    *("total_visits", "session_duration_seconds", "user_engaged", "visits_direct"),
    *("visits_referral", "visits_search_engine", "visits_social_media"),
)
_CUSTOMER = {
    "customer_name": "Name of the customer",
    "assigned_to_email": _PERSON,
    "status": f"Where the deal stands: {_STATUS}",
    "customer_email": "Email address of the customer",
    "customer_phone": "Phone number of the customer",
    "last_contact_date": f"Day of the last contact, {_DAY}",
    "product_interest": f"What the customer wants: {_PRODUCT}",
    "notes": "Anything else worth knowing",
    "follow_up_by": f"Day by which to get in touch again, {_DAY}",
}
_TASK = {
    "task_name": "Name of the task",
    "assigned_to_email": _PERSON,
    "list_name": f"How far the task is: {_LIST}",
    "due_date": f"Day by which it is due, {_DAY}",
    "board": f"Board of the team: {_BOARD}",
}


class Spec(NamedTuple):
    description: str
    arguments: Mapping[str, str]
    optional: bool | frozenset[str] = False  # all, none, or these


def _field_of(columns: tuple[str, ...]) -> str:
    return f"Name of the field: {_one_of(*columns)}"


SPECS: Mapping[str, Spec] = {
    "company_directory_find_email_address": Spec(
        "Look up colleagues' email addresses by a name or a part of one.", {"name": "The name, or a part of it"}, True
    ),
    "email_get_email_information_by_id": Spec(
        "Read one field of an email.", {"email_id": "ID of the email", "field": _field_of(EMAIL_COLUMNS)}
    ),
    "email_search_emails": Spec(
        "Find emails whose subject, body or address hold every word of the query; newest first.",
        {
            "query": "Words to look for",
            "date_min": f"First day, {_DAY}",
            "date_max": f"Last day, {_DAY}",
            **_PAGE,
        },
        True,
    ),
    "email_send_email": Spec(
        "Send an email.",
        {"recipient": "Email address to send it to", "subject": "Subject line", "body": "Text of the email"},
    ),
    "email_delete_email": Spec("Delete an email.", {"email_id": "ID of the email"}),
    "email_forward_email": Spec(
        "Forward an email.", {"email_id": "ID of the email", "recipient": "Email address to forward it to"}
    ),
    "email_reply_email": Spec("Reply to an email.", {"email_id": "ID of the email", "body": "Text of the reply"}),
    "calendar_get_event_information_by_id": Spec(
        "Read one field of an event.", {"event_id": "8-digit ID of the event", "field": _field_of(EVENT_COLUMNS)}
    ),
    "calendar_search_events": Spec(
        "Find events by name or participant; latest first.",
        {
            "query": "Text to look for in the name and the participant's address",
            "time_min": f"Earliest start, {_TIME}",
            "time_max": f"Latest start, {_TIME}",
            **_PAGE,
        },
        True,
    ),
    "calendar_create_event": Spec(
        "Put an event into the calendar.",
        {
            "event_name": "Name of the event",
            "participant_email": "Email address of the participant",
            "event_start": f"Start, {_TIME}",
            "duration": "Length in minutes",
        },
    ),
    "calendar_delete_event": Spec("Remove an event.", {"event_id": "8-digit ID of the event"}),
    "calendar_update_event": Spec(
        "Change one field of an event.",
        {
            "event_id": "8-digit ID of the event",
            "field": _field_of(EVENT_COLUMNS[1:]),
            "new_value": "What the field is to hold",
        },
    ),
    "analytics_get_visitor_information_by_id": Spec(
        "Read the website visits of one visitor.", {"visitor_id": "ID of the visitor"}
    ),
    "analytics_create_plot": Spec(
        "Plot a figure of the website's visits over a range of days.",
        {
            **_RANGE,
            "value_to_plot": f"The figure: {_VALUES}",
            "plot_type": f"The kind of plot: {_one_of('bar', 'line', 'scatter', 'histogram')}",
        },
    ),
    "analytics_total_visits_count": Spec("Count the website's visits, day by day.", _RANGE, True),
    "analytics_engaged_users_count": Spec("Count the visitors who were engaged, day by day.", _RANGE, True),
    "analytics_traffic_source_count": Spec(
        "Count the visits that came from one source, day by day.",
        {**_RANGE, "traffic_source": f"The source: {_SOURCES}"},
        True,
    ),
    "analytics_get_average_session_duration": Spec("Average length of a visit in seconds, day by day.", _RANGE, True),
    "project_management_get_task_information_by_id": Spec(
        "Read one field of a task.", {"task_id": "8-digit ID of the task", "field": _field_of(TASK_COLUMNS)}
    ),
    "project_management_search_tasks": Spec("Find tasks on the project boards.", _TASK, True),
    "project_management_create_task": Spec("Put a task on a project board.", _TASK),
    "project_management_delete_task": Spec("Remove a task.", {"task_id": "8-digit ID of the task"}),
    "project_management_update_task": Spec(
        "Change one field of a task.",
        {
            "task_id": "8-digit ID of the task",
            "field": _field_of(TASK_COLUMNS[1:]),
            "new_value": "What the field is to hold",
        },
    ),
    "customer_relationship_manager_search_customers": Spec(
        "Find customers; every given argument must fit.",
        {
            **{name: _CUSTOMER[name] for name in ("customer_name", "customer_email", "product_interest", "status")},
            "assigned_to_email": _PERSON,
            "last_contact_date_min": f"Earliest day of the last contact, {_DAY}",
            "last_contact_date_max": f"Latest day of the last contact, {_DAY}",
            "follow_up_by_min": f"Earliest day to get in touch again, {_DAY}",
            "follow_up_by_max": f"Latest day to get in touch again, {_DAY}",
            **_PAGE,
        },
        True,
    ),
    "customer_relationship_manager_update_customer": Spec(
        "Change one field of a customer.",
        {
            "customer_id": "ID of the customer",
            "field": _field_of(CUSTOMER_COLUMNS[1:]),
            "new_value": "What the field is to hold",
        },
    ),
    "customer_relationship_manager_add_customer": Spec(
        "Add a customer.", _CUSTOMER, frozenset(_CUSTOMER) - {"customer_name", "assigned_to_email", "status"}
    ),
    "customer_relationship_manager_delete_customer": Spec("Remove a customer.", {"customer_id": "ID of the customer"}),
}


def schema_of(name: str) -> dict[str, Any]:
    """The tool as a row's `tools` list has it. Not strict: most arguments may be left out."""
    spec = SPECS[name]
    properties = {
        argument: {"type": "integer" if argument in _INTEGERS else "string", "description": text}
        for argument, text in spec.arguments.items()
    }
    optional = spec.arguments if spec.optional is True else spec.optional or ()
    return {
        "type": "function",
        "name": name,
        "description": spec.description,
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": [argument for argument in properties if argument not in optional],
            "additionalProperties": False,
        },
        "strict": False,
    }


def all_schemas() -> list[dict[str, Any]]:
    return [schema_of(name) for name in SPECS]
