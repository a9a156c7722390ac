"""Makes rows of a taskset: python generate.py --count 100 --task sum.

Of another than the shipped one: python generate.py --taskset '{"id": "textarena", "game": "Wordle-v0"}'.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import verifiers.v1 as vf
from letters_and_sums import KINDS, SmallTask
from tasksets import load_env

from gym.server.generating import Made, NoMoreRows, main

OWN: Final = "letters_and_sums"
AGENT: Final = {"type": "responses_api_agents", "name": "verifiers_play_agent"}


class TasksetRows:
    licence = "Apache-2.0; another taskset's own, where it is named"
    difficulties = ("any",)

    def __init__(self, taskset: dict[str, Any] | None = None) -> None:
        self.taskset = taskset
        self.tasks = KINDS if taskset is None else ()
        self._left: Iterator[vf.Task] | None = None

    def make(self, random: Random, difficulty: str, task: str = "") -> Made:
        if self.taskset is not None:
            return self._next()
        config: dict[str, Any] = {"id": OWN, "seed": random.getrandbits(31), **({"kinds": [task]} if task else {})}
        if not task:
            config["kinds"] = [random.choice(KINDS)]
        (made,) = load(config).take(1)
        assert isinstance(made, SmallTask)
        return make_row(made, OWN, answer=f"\\boxed{{{made.data.answer}}}")

    def _next(self) -> Made:
        assert self.taskset is not None
        self._left = self._left or iter(load(self.taskset))
        if (task := next(self._left, None)) is None:
            raise NoMoreRows(f"{self.taskset['id']} has no more tasks")
        return make_row(task, str(self.taskset["id"]))


def load(taskset: dict[str, Any]) -> vf.Taskset[Any, Any]:
    return load_env({"taskset": taskset}, max_turns=None).taskset


def make_row(task: vf.Task, taskset: str, *, answer: str = "") -> Made:
    data = task.data.model_dump(mode="json", exclude_defaults=True)
    asked = [{"type": "message", "role": "user", "content": task.data.prompt_text}]
    if task.data.system_prompt:
        asked.insert(0, {"type": "message", "role": "system", "content": task.data.system_prompt})
    fields = {"taskset": taskset, "task": data, "agent_ref": AGENT}
    return Made({"responses_create_params": {"input": asked}, **fields}, answer=answer, key=task.key)


def run() -> int:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--taskset", type=json.loads)
    own, rest = parser.parse_known_args()
    return main(TasksetRows(own.taskset), rest)


if __name__ == "__main__":
    raise SystemExit(run())
