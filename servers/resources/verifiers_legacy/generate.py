"""Makes rows of an environment's data set: python generate.py --count 100 --task sum.

Of another than the shipped one: python generate.py --environment NAME --arguments '{"seed": 7}'.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from app import load
from letters_and_sums import KINDS

from gym.server.generating import Made, NoMoreRows, main

OWN: Final = "letters_and_sums"
AGENT: Final = {"type": "responses_api_agents", "name": "verifiers_legacy_play_agent"}


class ExampleRows:
    licence = "Apache-2.0; another environment's own, where it is named"
    difficulties = ("any",)

    def __init__(self, environment: str = OWN, arguments: dict[str, Any] | None = None) -> None:
        self.environment, self.arguments = environment, arguments or {}
        self.tasks = KINDS if environment == OWN else ()
        self._left: Iterator[dict[str, Any]] | None = None

    def make(self, random: Random, difficulty: str, task: str = "") -> Made:
        if self.environment == OWN:
            kinds = (task or random.choice(KINDS),)
            (example,) = load(OWN, {"kinds": kinds, "count": 1, "seed": random.getrandbits(31)}).get_dataset()
            return make_row(OWN, example, answer=f"<answer>{example['answer']}</answer>")
        self._left = self._left or iter(load(self.environment, self.arguments).get_dataset())
        if (found := next(self._left, None)) is None:
            raise NoMoreRows(f"{self.environment} has no more examples")
        return make_row(self.environment, found)


def make_row(environment: str, example: dict[str, Any], *, answer: str = "") -> Made:
    prompt = example["prompt"]
    given = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    asked = [{"type": "message", "role": one["role"], "content": one["content"]} for one in given]
    fields = {"environment": environment, "example": example, "agent_ref": AGENT}
    return Made({"responses_create_params": {"input": asked}, **fields}, answer=answer)


def run() -> int:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--environment", default=OWN)
    parser.add_argument("--arguments", type=json.loads)
    own, rest = parser.parse_known_args()
    return main(ExampleRows(own.environment, own.arguments), rest)


if __name__ == "__main__":
    raise SystemExit(run())
