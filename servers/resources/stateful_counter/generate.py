"""Makes rows of counters: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A difficulty sets how many steps there are, and whether a step hangs on what the counter shows by then.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from gym.server.cases import CaseStep
from gym.server.generating import Made, main, make_row

TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "name": "increment_counter",
        "description": "Add a number to the counter.",
        "parameters": {
            "type": "object",
            "properties": {"count": {"type": "integer", "description": "What to add; may be negative"}},
            "required": ["count"],
            "additionalProperties": False,
        },
        "strict": True,
    },
    {
        "type": "function",
        "name": "get_counter_value",
        "description": "Read the counter.",
        "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        "strict": True,
    },
]
SYSTEMS: Final = (
    "You work a counter with the tools you have. Do every step, one call each, and end with the value you read.",
    "A counter stands before you, and two tools: one adds to it, one reads it. Do the steps in their order.",
    "Work through the steps with the tools. Never work out in your head what the counter shows: read it.",
    "You keep a counter up to date. Each step changes it once or not at all. Say at the end what it shows.",
)


class Story(NamedTuple):
    start: str
    more: str
    less: str


STORIES: Final = (
    Story("The counter starts at {}.", "add {}", "take {} away"),
    Story("There are {} crates in the store, and the counter shows it.", "{} crates arrive", "{} crates are sent off"),
    Story("A library counts its visitors; {} are in the building.", "{} people come in", "{} people go home"),
    Story("The counter shows the score of a game: {}.", "{} points are won", "{} points are lost"),
    Story("A tank holds {} litres, as the counter says.", "pour {} litres in", "let {} litres out"),
    Story("The savings box holds {} coins; the counter counts them.", "put {} coins in", "take {} coins out"),
    Story("At the depot the counter of parked buses shows {}.", "{} buses come back", "{} buses drive off"),
)
ENDINGS: Final = ("Then read the counter.", "At the end read it and say the value.", "What does the counter show now?")


class Level(NamedTuple):
    steps: tuple[int, int]
    greatest: int
    kinds: tuple[str, ...]


LEVELS: Final = {
    "easy": Level((2, 3), 60, ("more", "less")),
    "medium": Level((4, 7), 250, ("more", "less", "repeat", "again")),
    "hard": Level((8, 14), 900, ("more", "less", "repeat", "again", "double", "above", "odd", "back")),
}


class Deed(NamedTuple):
    """What a step is to do."""

    kind: str
    number: int
    times: int = 1


class StatefulCounterGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def make(self, random: Random, difficulty: str) -> Made:
        level = LEVELS[difficulty]
        deeds = [_deed(random, level) for _ in range(random.randint(*level.steps))]
        start = random.randint(0, level.greatest)
        calls, final = work(start, deeds)
        if final == start:  # then nothing had to be done
            return self.make(random, difficulty)
        story = random.choice(STORIES)
        parts = "\n".join(f"{number}. {_tell(story, deed)}." for number, deed in enumerate(deeds, 1))
        prompt = f"{story.start.format(start)}\n{parts}\n{random.choice(ENDINGS)}"
        asked = [{"role": "developer", "content": random.choice(SYSTEMS)}, {"role": "user", "content": prompt}]
        key = f"{start}:{deeds}"
        row = make_row("stateful_counter", key, asked, initial_count=start, expected_count=final)
        row["responses_create_params"]["tools"] = TOOLS
        return Made(row, answer=f"The counter shows {final}.", steps=calls, key=key)


def work(start: int, deeds: list[Deed]) -> tuple[tuple[CaseStep, ...], int]:
    """The calls that do the steps, and where the counter stands after them."""
    calls: list[CaseStep] = []
    count = start
    last = 0
    for deed in deeds:
        if deed.kind in ("double", "above", "odd", "back"):
            calls.append(CaseStep(tool="get_counter_value"))
        for change in _changes(deed, start, count, last):
            calls.append(CaseStep(tool="increment_counter", arguments={"count": change}))
            count, last = count + change, change
    return (*calls, CaseStep(tool="get_counter_value")), count


_CHANGES: Final[dict[str, Callable[[Deed, int, int, int], list[int]]]] = {
    "more": lambda deed, start, count, last: [deed.number],
    "less": lambda deed, start, count, last: [-deed.number],
    "repeat": lambda deed, start, count, last: [deed.number] * deed.times,
    "again": lambda deed, start, count, last: [last],
    "double": lambda deed, start, count, last: [count],
    "above": lambda deed, start, count, last: [-deed.number if count > deed.times else deed.number],
    "odd": lambda deed, start, count, last: [deed.number] if count % 2 else [],
    "back": lambda deed, start, count, last: [start - count],
}


def _changes(deed: Deed, start: int, count: int, last: int) -> list[int]:
    """What is added, call by call; nothing to add means no call."""
    return [change for change in _CHANGES[deed.kind](deed, start, count, last) if change]


def _deed(random: Random, level: Level) -> Deed:
    kind = random.choice(level.kinds)
    number = random.randint(1, level.greatest)
    times = {"repeat": random.randint(2, 4), "above": random.randint(1, 2 * level.greatest)}.get(kind, 1)
    return Deed(kind, 0 if kind in ("again", "double", "back") else number, times)


def _tell(story: Story, deed: Deed) -> str:
    number = deed.number
    parts = {
        "more": story.more.format(number),
        "less": story.less.format(number),
        "repeat": f"add {number}, and do so {deed.times} times in all",
        "again": "make your last call that changed the counter once more; if there was none, do nothing",
        "double": "read the counter and add what it shows",
        "above": f"read the counter: if it shows more than {deed.times}, take {number} away, else add {number}",
        "odd": f"read the counter: if it shows an odd number, add {number}, else leave it",
        "back": "read the counter and bring it back to where it started",
    }[deed.kind]
    return parts[0].upper() + parts[1:]


if __name__ == "__main__":
    raise SystemExit(main(StatefulCounterGenerator()))
