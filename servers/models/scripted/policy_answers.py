"""Answers of a file, by prompt: `{input, turns, judge}` lines. What a perfect policy says, turn after turn.

A prompt that no line begins with is a judge's: it gets the texts of the line that was asked last, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product, takewhile
from pathlib import Path
from typing import Any

import orjson
from policy_recording import canonical_request, request_digest

from gym.errors import UserError
from gym.wire import items
from gym.wire.items import Item, input_items

MADE = ("function_call", "message", "reasoning")


@dataclass(frozen=True)
class Line:
    turns: tuple[list[Item], ...]
    judge: tuple[str, ...]


@dataclass
class Answers:
    """For one caller at a time: whose judge is speaking is known from whose prompt came last."""

    lines: Mapping[str, Line]
    lengths: tuple[int, ...]  # of the prompts, in items, the longest first
    texts: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> Answers:
        try:
            return cls.of([orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()])
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise UserError(f"answers: {path} cannot be read: {error}", "a line is {input, turns, judge}") from None

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, Any]]) -> Answers:
        """Of two lines with one prompt the first is said."""
        lines: dict[str, Line] = {}
        lengths: set[int] = set()
        for one in entries:
            asked = input_items(one["input"])
            lengths.add(len(asked))
            lines.setdefault(_digest(asked), Line(tuple(one["turns"]), tuple(one.get("judge") or ())))
        return cls(lines, tuple(sorted(lengths, reverse=True)))

    def answer(self, params: Mapping[str, Any]) -> list[Item] | None:
        """The next turn; None where the file has nothing to say."""
        asked = input_items(params.get("input"))
        own = sum(1 for _ in takewhile(_is_system, asked))  # an agent may put words of its own before the row's
        for begin, length in product(range(own + 1), self.lengths):
            prompt = asked[begin : begin + length]
            line = self.lines.get(_digest(prompt)) if len(prompt) == length else None
            if line is not None:
                return self._turn(line, asked[begin + length :])
        return [items.message(self.texts.pop(0))] if self.texts else None

    def _turn(self, line: Line, said: list[Item]) -> list[Item] | None:
        self.texts = list(line.judge)
        done = len(split_turns(said))
        return line.turns[done] if done < len(line.turns) else None


def split_turns(output: list[Item]) -> list[list[Item]]:
    """A whole response's items as the turns of the model: tool outputs and users stand between them."""
    turns: list[list[Item]] = []
    speaking = False
    for item in output:
        made = item.get("type", "message") in MADE and item.get("role", "assistant") == "assistant"
        if made and not speaking:
            turns.append([])
        if made:
            turns[-1].append(item)
        speaking = made
    return turns


def _is_system(item: Item) -> bool:
    return item.get("role") in ("system", "developer")


def _digest(asked: list[Item]) -> str:
    return request_digest(canonical_request({"input": asked}))
