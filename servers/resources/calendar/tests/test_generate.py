"""Rows of calendar made by program: what the conversation says is what is expected, and a search finds a plan too."""

from __future__ import annotations

import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from generate import LEVELS, WHEN, CalendarGenerator
from schedule import Wanted, find_events, find_fault, minutes, read_wanted

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = CalendarGenerator()
TIME = r"(\d{1,2}(?::\d\d)?(?:am|pm)?)"


def made(count: int, difficulty: str, **options: Any) -> list[Made]:
    return list(generate(GENERATOR, count, **({"seed": 5, "split": "train", "difficulty": difficulty} | options)))


def wanted(one: Made) -> dict[str, Wanted]:
    keys = ("duration", "min_time", "max_time", "constraint")
    return {id_: read_wanted(*(event[key] for key in keys)) for id_, event in one.row["exp_cal_state"].items()}


def read_conversation(one: Made) -> dict[str, Wanted]:
    """The state as the messages tell it, without a look at the other fields."""
    system, *messages = one.row["responses_create_params"]["input"]
    opens, closes = re.findall(rf"{TIME} (?:to|and is over at) {TIME}", system["content"])[0]
    state: dict[str, Wanted] = {}
    for message in messages:
        text = message["content"]
        about = re.search(r"event_id (?:is )?(\d+)|[Ee]vent (\d+)", text)
        if message["role"] == "assistant" or about is None:
            continue
        id_, length = about[1] or about[2], re.search(r"(\d+) minutes", text)
        state.pop(id_, None)
        if length is not None:
            state[id_] = read_wanted(int(length[1]), opens, closes, _constraint(text))
    return state


def _constraint(text: str) -> str | None:
    for kind, forms in WHEN.items():
        for form in forms:
            found = re.search(re.sub(r"\\\{\w+\\\}", lambda _: TIME, re.escape(form)) + r"(?=[.;?)]| at the)", text)
            if found is not None and kind:
                return f"{kind} {' and '.join(found.groups())}"
    return None


def search(events: dict[str, Wanted], grid: int) -> dict[str, int]:
    """Starts for all events by backtracking, the one with the fewest places first."""
    starts = {
        id_: [
            at for at in range(int(one.earliest), int(one.latest - one.duration) + 1, grid) if one.starts in (None, at)
        ]
        for id_, one in events.items()
    }
    order = sorted(events, key=lambda id_: len(starts[id_]))

    def place(placed: dict[str, int]) -> dict[str, int] | None:
        if len(placed) == len(order):
            return placed
        id_ = order[len(placed)]
        for at in starts[id_]:
            if all(
                at >= other + events[key].duration or other >= at + events[id_].duration
                for key, other in placed.items()
            ):
                found = place({**placed, id_: at})
                if found is not None:
                    return found
        return None

    found = place({})
    assert found is not None
    return found


def fits_in_order(events: dict[str, Wanted], grid: int) -> bool:
    """Whether each event can be put at its earliest free place in the order in which they are asked for."""
    taken: list[tuple[float, float]] = []
    for one in events.values():
        for at in range(int(one.earliest), int(one.latest - one.duration) + 1, grid):
            if one.starts in (None, at) and all(at >= end or at + one.duration <= begin for begin, end in taken):
                taken.append((at, at + one.duration))
                break
        else:
            return False
    return True


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_conversation_says_what_is_expected_at_its_end(difficulty: str) -> None:
    for one in made(150, difficulty):
        assert read_conversation(one) == wanted(one)


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
def test_a_search_that_knows_only_the_constraints_finds_a_calendar_that_is_paid(difficulty: str) -> None:
    for one in made(100, difficulty):
        events = wanted(one)
        starts = search(events, LEVELS[difficulty].grid)
        calendar = [
            {"event_id": id_, "start_time": f"{at // 60}:{at % 60:02}", "duration": events[id_].duration}
            for id_, at in starts.items()
        ]
        assert not find_fault(find_events(json.dumps(calendar)), events, strict=True)


def test_events_and_messages_grow_and_putting_them_in_one_by_one_fails_more_often() -> None:
    events, messages, fits = [], [], []
    for difficulty, level in LEVELS.items():
        rows = made(150, difficulty)
        events.append(fmean(len(one.row["exp_cal_state"]) for one in rows))
        messages.append(fmean(len(one.row["responses_create_params"]["input"]) for one in rows))
        fits.append(fmean(fits_in_order(read_conversation(one), level.grid) for one in rows))
    sys.stdout.write(f"events {events}, messages {messages}, fits in the order asked {fits}\n")
    assert all(few < many for grown in (events, messages) for few, many in pairwise(grown))
    assert all(often > seldom for often, seldom in pairwise(fits))


def test_an_answer_is_a_plan_within_the_day() -> None:
    for one in made(100, "hard"):
        day = next(iter(one.row["exp_cal_state"].values()))
        for event in json.loads(one.answer):
            start = minutes(event["start_time"])
            assert minutes(day["min_time"]) <= start <= minutes(day["max_time"]) - event["duration"]


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 40, strict=strict, grows=True)


def test_the_same_seed_makes_the_same_rows_and_splits_share_no_task() -> None:
    rows = check_repeatable(GENERATOR, "easy")
    assert len({one.row["uuid"] for one in rows}) == 50


@pytest.mark.long
@pytest.mark.parametrize(("strict", "count"), [(False, 10_000), (True, 2_000)])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(strict: bool, count: int) -> None:
    await check_paid(load_app(APP), GENERATOR, count, strict=strict)
