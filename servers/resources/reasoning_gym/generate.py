"""Makes rows of reasoning-gym tasks: python generate.py --count 100 --seed 7 --difficulty hard > rows.jsonl.

A difficulty is a level of the package's curricula. The package checks each answer, and a solver if there is one.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import puzzle_solvers
import solvers
from doubtful import CAPS, COSTLY, DOUBTFUL, LONGEST, UNSTABLE, WITHOUT_ANSWER
from reasoning_gym.factory import CURRICULA, DATASETS, create_curriculum, create_dataset
from scoring import score

from gym.server.generating import Made, main

warnings.filterwarnings("ignore")  # of packages that the tasks use
ASK: Final = "Give your final answer between <answer> and </answer>."
LEVELS: Final = {"easy": 0, "medium": 1, "hard": 2, "extreme": 3}
SOLVERS: Final = solvers.SOLVERS | puzzle_solvers.SOLVERS
LEFT_OUT: Final = DOUBTFUL.keys() | WITHOUT_ANSWER | UNSTABLE | COSTLY
TASKS: Final = tuple(sorted(set(DATASETS) - {"composite"} - LEFT_OUT))
AGENT: Final = {"type": "responses_api_agents", "name": "reasoning_gym_simple_agent"}
TRIES: Final = 100
# Of the package, on some seeds of some levels: word_ladder, for one.
FAULTS: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class ReasoningGymGenerator:
    licence = "Apache-2.0, as the package that makes them"
    difficulties: tuple[str, ...] = tuple(LEVELS)

    def __init__(self, tasks: tuple[str, ...] = TASKS, settings: Mapping[str, Any] | None = None) -> None:
        self.tasks = tasks
        self.settings = dict(settings or {})
        self._configs: dict[tuple[str, str], dict[str, Any]] = {}

    def make(self, random: Random, difficulty: str) -> Made:
        """A row of a random task whose own answer holds."""
        for _ in range(TRIES):
            task, seed = random.choice(self.tasks), random.getrandbits(31)
            try:
                made = make_entry(task, self.config(task, difficulty), seed)
                if task in DOUBTFUL or task in WITHOUT_ANSWER or is_right(made):
                    return _row(made)
            except FAULTS:
                continue
        raise ValueError(f"no row with an answer that holds among {TRIES} of {', '.join(self.tasks)}")

    def config(self, task: str, difficulty: str) -> dict[str, Any]:
        if (task, difficulty) not in self._configs:
            self._configs[task, difficulty] = level_config(task, LEVELS[difficulty]) | self.settings
        return self._configs[task, difficulty]


def level_config(task: str, level: int) -> dict[str, Any]:
    """The settings of a level; of the highest below it where the package refuses its own."""
    if task not in CURRICULA:
        return {}
    for lower in range(level, -1, -1):
        curriculum = create_curriculum(task)
        curriculum.set_global_level(lower)
        config = curriculum.generate_configuration({})
        try:
            getattr(config, "validate", int)()
        except AssertionError:
            continue
        settings = dict(vars(config))
        return settings | {name: min(settings[name], cap) for name, cap in CAPS.get(task, {}).items()}
    return {}


def make_entry(task: str, config: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """One question with its answer, as it is read back from JSON."""
    entry = create_dataset(task, **{**config, "size": 1, "seed": seed})[0]
    kept = {key: entry.get(key) for key in ("question", "answer", "metadata")}
    plain: dict[str, Any] = json.loads(json.dumps(kept, default=_plain))
    return plain


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def is_right(entry: Mapping[str, Any]) -> bool:
    """Whether the package pays its own answer in full, the server looks at it, and no solver contradicts it."""
    task, answer = entry["metadata"]["source_dataset"], entry["answer"]
    if not isinstance(answer, str) or not 0 < len(answer.strip()) <= LONGEST:
        return False
    if score(task, answer.strip(), dict(entry), True) != 1.0:
        return False
    solver = SOLVERS.get(task)
    return solver is None or solver(entry["question"], answer)


def entry_to_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    asked = {"input": [{"role": "user", "content": f"{entry['question']}\n\n{ASK}"}]}
    return {"responses_create_params": asked, **entry, "agent_ref": AGENT}


def _row(entry: Mapping[str, Any]) -> Made:
    key = f"{entry['metadata']['source_dataset']}:{entry['question']}"
    return Made(entry_to_row(entry), answer=f"<answer>{entry['answer']}</answer>", key=key)


def run(argv: list[str] | None = None) -> int:
    """The options of tasks; all others are those of every generator."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--task", default="")
    parser.add_argument("--config", type=json.loads, default={})
    parser.add_argument("--doubtful", action="store_true")
    own, rest = parser.parse_known_args(argv)
    if {"-h", "--help"} & set(rest):
        sys.stderr.write("--task NAME,NAME: these tasks alone; --config JSON: their settings\n")
        sys.stderr.write(
            "--doubtful: also the tasks whose answers may be wrong (README), as the package makes them\n\n"
        )
    tasks = tuple(own.task.split(",")) if own.task else TASKS
    unknown = sorted(set(tasks) - set(DATASETS))
    if unknown:
        sys.stderr.write(f"reasoning-gym has no task {', '.join(unknown)}\n")
        return 1
    refused = sorted(set(tasks) & DOUBTFUL.keys()) if not own.doubtful else []
    if refused:
        sys.stderr.write(
            "".join(f"{task}: {DOUBTFUL[task]}\n" for task in refused) + "--doubtful makes them all the same\n"
        )
        return 1
    if own.doubtful and not own.task:
        tasks = tuple(sorted((*TASKS, *DOUBTFUL)))
    return main(ReasoningGymGenerator(tasks, own.config), rest)


if __name__ == "__main__":
    raise SystemExit(run())
