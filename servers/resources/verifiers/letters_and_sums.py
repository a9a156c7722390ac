"""A taskset of verifiers, as a package of its own would have it: small tasks with one right answer, in a box."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random

import verifiers.v1 as vf
from pydantic import Field

ASK = "Put the answer, and nothing else, into \\boxed{}."
WORDS = ("anchor", "basket", "candle", "dragon", "engine", "feather", "garden", "harbor", "island", "jacket", "kitten")
KINDS = ("backward", "letters", "sum")


class SmallConfig(vf.TasksetConfig):
    kinds: list[str] = Field(default=list(KINDS), min_length=1)
    seed: int = 0


class SmallData(vf.TaskData):
    answer: str


class SmallTask(vf.Task[SmallData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        return float(vf.extract_boxed_answer(trace.last_reply, strict=True).strip() == self.data.answer)

    @vf.metric
    async def boxed(self, trace: vf.Trace) -> float:
        """Whether the answer stood where it was asked for."""
        return float(vf.extract_boxed_answer(trace.last_reply, strict=True) != "")


class SmallTaskset(vf.Taskset[SmallTask, SmallConfig]):
    INFINITE = True

    def load(self) -> Iterator[SmallTask]:
        for number in count():
            kind = self.config.kinds[number % len(self.config.kinds)]
            question, answer = make_question(kind, Random(f"{self.config.seed}:{number}"))
            yield SmallTask(SmallData(name=kind, prompt=f"{question} {ASK}", answer=answer), self.config.task)


def make_question(kind: str, random: Random) -> tuple[str, str]:
    words = random.sample(WORDS, 3)
    if kind == "backward":
        text = "".join(words[:2])
        return f"Spell {text!r} backward.", text[::-1]
    if kind == "letters":
        letter = random.choice("aeinr")
        return f"How often does the letter {letter!r} stand in {' '.join(words)!r}?", str(" ".join(words).count(letter))
    if kind == "sum":
        numbers = [random.randint(10, 999) for _ in range(4)]
        return f"What is {' + '.join(map(str, numbers))}?", str(sum(numbers))
    raise ValueError(f"kinds: there is no {kind!r}; there are {', '.join(KINDS)}")


__all__ = ["SmallTaskset"]
