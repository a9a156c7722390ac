"""Makes rows over the tables shipped here: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A difficulty sets how many things are asked for, of which kind, and so how many calls a row takes.
"""

import json
from pathlib import Path
from random import Random
from typing import Any, Final

from example_rows import SYSTEM
from made_batches import CONDITIONAL, SEVERAL
from made_tasks import ONE, Desk, Maker, Task
from office.desk import load_seed
from office.schemas import all_schemas

from gym.server.cases import CaseStep
from gym.server.generating import Made, main, make_row

TABLES: Final = Path(__file__).parent / "data" / "tables"
FORMATS: Final = (
    "Write a day as YYYY-MM-DD and a point in time as YYYY-MM-DD HH:MM:SS, and texts exactly as they are given.",
    "Days are written YYYY-MM-DD, points in time YYYY-MM-DD HH:MM:SS. Take over names and texts letter by letter.",
    "Use YYYY-MM-DD for days, YYYY-MM-DD HH:MM:SS for times, and every quoted text as it stands, without its quotes.",
)
POLITE: Final = ("", "Please ", "Could you ", "I need you to ", "Would you kindly ", "Before I leave: ")
JOINTS: Final = ("Then", "Also,", "Besides,", "After that,", "When that is done,")
# The kinds of things that a row asks for, one of each.
LEVELS: Final[dict[str, tuple[tuple[Maker, ...], ...]]] = {
    "easy": (ONE,),
    "medium": (SEVERAL, ONE),
    "hard": (CONDITIONAL, SEVERAL, ONE),
}


class WorkplaceGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def __init__(self) -> None:
        self.seed = load_seed(TABLES)
        self.tools = all_schemas()

    def make(self, random: Random, difficulty: str) -> Made:
        tasks: list[Task] = []
        for makers in LEVELS[difficulty]:
            tasks.append(_pick(random, Desk(self.seed, random), makers, tasks))
        random.shuffle(tasks)
        calls = [call for task in tasks for call in task.calls]
        steps = [call for task in tasks for call in (*task.lookups, *task.calls)]
        domains = sorted(set().union(*(task.domains for task in tasks)))
        category = domains[0] if len(domains) == 1 else "multi_domain"
        truth = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls]
        row = make_row(
            "workplace_assistant",
            key := json.dumps(sorted(calls, key=json.dumps), sort_keys=True),
            _messages(random, tasks),
            ground_truth=truth,
            id=random.randrange(10**9),
            category=f"workplace_assistant_{category}",
            environment_name="workplace_assistant",
        )
        row["responses_create_params"] |= {"tools": self.tools, "parallel_tool_calls": True}
        return Made(
            row, answer="Done.", steps=tuple(CaseStep(tool=name, arguments=given) for name, given in steps), key=key
        )


def _pick(random: Random, desk: Desk, makers: tuple[Maker, ...], taken: list[Task]) -> Task:
    """A task that shares no table with those that are there: their order never matters."""
    while True:
        task = random.choice(makers)(desk)
        if task and not any(task.domains & one.domains for one in taken):
            return task


def _messages(random: Random, tasks: list[Task]) -> list[dict[str, Any]]:
    opening = random.choice(POLITE)
    parts = [opening + tasks[0].text if opening else _capitalised(tasks[0].text)]
    for task in tasks[1:]:
        joint = random.choice((*JOINTS, ""))
        parts.append(f"{joint} {task.text}" if joint else _capitalised(task.text))
    prompt = " ".join(f"{text}." for text in parts)
    if len(tasks) > 1 and random.random() < 0.3:
        prompt = "\n".join(f"{number}. {_capitalised(task.text)}." for number, task in enumerate(tasks, 1))
    system = f"{SYSTEM} {random.choice(FORMATS)}"
    return [{"role": "system", "content": system}, {"role": "user", "content": prompt}]


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


if __name__ == "__main__":
    raise SystemExit(main(WorkplaceGenerator()))
