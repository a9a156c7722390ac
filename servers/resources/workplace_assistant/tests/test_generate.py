"""Rows of workplace_assistant made by program: their searches show what is needed, every call counts, all are paid."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from generate import LEVELS, WorkplaceGenerator
from office.desk import NOW, Office
from office.outcome import differing, replay
from office.toolbox import run_tool
from office.truth import replay_truth

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = WorkplaceGenerator()
IDS = ("email_id", "event_id", "task_id", "customer_id")
DOMAIN = "@tidemark.example"


def made(count: int, difficulty: str, **options: Any) -> list[Made]:
    return list(generate(GENERATOR, count, **({"seed": 5, "split": "train", "difficulty": difficulty} | options)))


def truth_of(one: Made) -> list[tuple[str, str]]:
    return [(call["name"], call["arguments"]) for call in one.row["ground_truth"]]


def prompt_of(one: Made) -> str:
    text: str = one.row["responses_create_params"]["input"][1]["content"]
    return text


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_searches_of_a_solution_show_every_id_and_address_that_its_calls_use(difficulty: str) -> None:
    for one in made(100, difficulty):
        office, shown = Office.open(GENERATOR.seed), ""
        for step in one.steps:
            values = [str(value) for name, value in step.arguments.items() if name in IDS or DOMAIN in str(value)]
            lookup = "search" in step.tool or "find" in step.tool
            assert lookup or all(value in shown for value in values), (step, prompt_of(one))
            shown += json.dumps(run_tool(office, step.tool, step.arguments))


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_prompt_says_what_is_written(difficulty: str) -> None:
    for one in made(200, difficulty):
        prompt = prompt_of(one)
        for _, text in truth_of(one):
            for name, value in json.loads(text).items():
                said = name in (*IDS, "field", "value_to_plot") or all(part in prompt for part in _written(value))
                assert said or "responsible" in prompt or "looks after" in prompt, (name, value, prompt)


def _written(value: str) -> list[str]:
    """How a request says a value: a first name instead of an address, a day and an hour instead of a time."""
    if value.endswith(DOMAIN):
        return [value.partition(".")[0].capitalize()]
    time = re.fullmatch(r"(\S+) 0?(\d+:\d\d):00", value)
    return list(time.groups()) if time else [value]


def test_every_call_of_a_truth_counts_and_their_order_does_not_when_strict() -> None:
    for one in made(100, "hard"):
        truth = truth_of(one)
        wanted = replay_truth(GENERATOR.seed, truth, strict=True)
        assert differing(replay(GENERATOR.seed, truth[::-1]), wanted, strict=True) == []
        for number in range(len(truth)):
            fewer = truth[:number] + truth[number + 1 :]
            assert differing(replay(GENERATOR.seed, fewer), wanted, strict=True)


BATCHES = {
    "task_id": r"[Mm]ove all of (\w+)'s tasks that are in ([\w ]+) to",
    "customer_id": r"[Aa]ssign all of (\w+)'s customers whose status is (\w+) to",
    "email_id": r"[Dd]elete every email that (\w+) sent me on ([\d-]+) or later",
    "event_id": r"[Cc]ancel all my meetings with (\w+) from tomorrow up to ([\d-]+)",
}


def test_the_searches_of_the_office_find_the_same_batches() -> None:
    """The tools' own filters, used on what the prompt says, name the rows that the truth changes."""
    checked = set()
    for one in made(400, "medium"):
        for key, pattern in BATCHES.items():
            if found := re.search(pattern, prompt_of(one)):
                assert _search(key, *found.groups()) <= {json.loads(text).get(key) for _, text in truth_of(one)}
                checked.add(key)
    assert checked == set(BATCHES)


def _search(key: str, name: str, which: str) -> set[str]:
    office = Office.open(GENERATOR.seed)
    (address,) = run_tool(office, "company_directory_find_email_address", {"name": name})
    if key == "task_id":
        tasks = run_tool(
            office, "project_management_search_tasks", {"assigned_to_email": address, "list_name": f"^{which}$"}
        )
        return {one[key] for one in tasks}
    if key == "customer_id":
        wanted = {"assigned_to_email": address, "status": which, "page_size": 100}
        customers = run_tool(office, "customer_relationship_manager_search_customers", wanted)["customers"]
        return {one[key] for one in customers}
    if key == "email_id":
        emails = run_tool(office, "email_search_emails", {"query": address, "date_min": which, "page_size": 500})[
            "emails"
        ]
        return {one[key] for one in emails if one["inbox/outbox"] == "inbox"}
    wanted = {"query": address, "time_min": NOW, "time_max": f"{which} 23:59:59", "page_size": 100}
    return {one[key] for one in run_tool(office, "calendar_search_events", wanted)["events"]}


def test_the_same_seed_makes_the_same_rows_and_splits_share_no_task() -> None:
    check_repeatable(GENERATOR, "easy", 100)


def test_a_harder_row_takes_more_calls() -> None:
    calls = [sum(len(one.steps) for one in made(200, difficulty)) / 200 for difficulty in LEVELS]
    sys.stdout.write(f"calls a row: {calls}\n")
    assert all(more > 1.2 * less for less, more in zip(calls, calls[1:], strict=False))


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 20, strict=strict, steps=not strict, grows=True)


@pytest.mark.long
@pytest.mark.parametrize(("strict", "count"), [(False, 10_000), (True, 2_000)])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(strict: bool, count: int) -> None:
    await check_paid(load_app(APP), GENERATOR, count, strict=strict)
