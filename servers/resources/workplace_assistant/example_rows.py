"""The five example rows: tasks over the tables, each with the calls that solve it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from office.desk import load_seed
from office.schemas import all_schemas
from office.table import Row

AGENT = {"type": "responses_api_agents", "name": "workplace_assistant_simple_agent"}
SYSTEM = (
    "You are the assistant of somebody who works at Tidemark. It is Thursday, 2023-11-30, 23:59. "
    "Do what is asked with the tools and nothing beyond it; do not ask back. "
    "Meetings last half an hour and begin between 9:00 and 17:30 unless told otherwise."
)
Call = tuple[str, dict[str, Any]]


def make_rows(tables: Path) -> list[dict[str, Any]]:
    seed = load_seed(tables)
    tools = all_schemas()
    tasks = [
        _reply(seed.emails.rows),
        _cancel(seed.events.rows),
        _plot(),
        _unblock(seed.tasks.rows),
        _hand_over(seed.customers.rows),
    ]
    return [
        {
            "responses_create_params": {
                "input": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}],
                "tools": tools,
                "parallel_tool_calls": False,
            },
            "ground_truth": [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls],
            "id": number,
            "category": f"workplace_assistant_{category}",
            "environment_name": "workplace_assistant",
            "agent_ref": AGENT,
        }
        for number, (category, prompt, calls) in enumerate(tasks)
    ]


def _reply(emails: tuple[Row, ...]) -> tuple[str, str, list[Call]]:
    last = [one for one in emails if one["inbox/outbox"] == "inbox" and "elif.kaya" in one["sender/recipient"]][-1]
    prompt = "Answer the last email that Elif sent me with 'Thank you, I will look at it tomorrow.'"
    calls = {"email_id": last["email_id"], "body": "Thank you, I will look at it tomorrow."}
    return "email", prompt, [("email_reply_email", calls)]


def _cancel(events: tuple[Row, ...]) -> tuple[str, str, list[Call]]:
    coming = [one for one in events if one["event_start"] > "2023-12-01" and "hiro" in one["participant_email"]]
    first = min(coming, key=lambda one: str(one["event_start"]))
    day = str(first["event_start"])[:10]
    later = f"{day[:8]}{int(day[8:]) + 7:02} 14:00:00"
    created = {
        "event_name": "Catch-up",
        "participant_email": first["participant_email"],
        "event_start": later,
        "duration": "30",
    }
    prompt = f"Hiro is ill. Cancel my next meeting with him, and book a half-hour 'Catch-up' with him for {later[:16]}."
    return (
        "calendar",
        prompt,
        [("calendar_delete_event", {"event_id": first["event_id"]}), ("calendar_create_event", created)],
    )


def _plot() -> tuple[str, str, list[Call]]:
    prompt = "Make bar charts of the total visits and of the engaged users from the 1st to the 29th of November."
    days = {"time_min": "2023-11-01", "time_max": "2023-11-29", "plot_type": "bar"}
    values = ("total_visits", "user_engaged")
    return "analytics", prompt, [("analytics_create_plot", {**days, "value_to_plot": value}) for value in values]


def _unblock(tasks: tuple[Row, ...]) -> tuple[str, str, list[Call]]:
    mine = [one for one in tasks if "jonas.weber" in one["assigned_to_email"] and one["list_name"] == "In Review"]
    prompt = "Jonas is done reviewing: move every task of his that is in review to completed."
    change = {"field": "list_name", "new_value": "Completed"}
    calls = [("project_management_update_task", {"task_id": one["task_id"], **change}) for one in mine]
    return "project_management", prompt, calls


def _hand_over(customers: tuple[Row, ...]) -> tuple[str, str, list[Call]]:
    leads = [
        one
        for one in customers
        if "rosa.jimenez" in one["assigned_to_email"]
        and (one["status"], one["product_interest"]) == ("Lead", "Training")
    ]
    prompt = "Rosa's leads who are interested in training go to Mateo. Please reassign them in the customer list."
    change = {"field": "assigned_to_email", "new_value": "mateo.silva@tidemark.example"}
    calls = [
        ("customer_relationship_manager_update_customer", {"customer_id": one["customer_id"], **change})
        for one in leads
    ]
    return "customer_relationship_manager", prompt, calls
