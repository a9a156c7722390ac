"""The facts of a file's lines as columns: one array for each, about 100 bytes a line; the text stays on the disk."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gym.console.viewer.facts import MAX_MEASURES, NO_NUMBER, Facts

TOOLS_APART: Final = "\n"
TRUNCATED, BREAKS = 1, 2  # bits of `marks`
# Each is an attribute of `Columns`, with one value a line.
TYPES: Final[Mapping[str, str]] = {
    "offsets": "Q",  # where the line begins in its file, and how long it is
    "lengths": "Q",
    "numbers": "I",  # as an editor counts lines
    "checks": "I",  # by which a line is known again
    "agents": "I",  # agents, kinds and toolsets are numbers of `texts`
    "kinds": "I",
    "toolsets": "I",
    "digests": "Q",  # of the rows' texts
    "tasks": "i",
    "repeats": "i",
    "tokens": "i",
    "tokens_in": "i",
    "tokens_out": "i",
    "steps": "I",
    "marks": "B",
    "rewards": "d",
    "began": "d",
    "seconds": "f",
    "queued": "f",
    "title_ends": "Q",
}


class TextNumbers:
    """Texts that repeat on every line, as numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def find(self, text: str) -> int:
        """-1 where no line has it."""
        return self._numbers.get(text, -1)


class Columns:
    offsets: array[int]
    lengths: array[int]
    numbers: array[int]
    checks: array[int]
    agents: array[int]
    kinds: array[int]
    toolsets: array[int]
    digests: array[int]
    tasks: array[int]
    repeats: array[int]
    tokens: array[int]
    tokens_in: array[int]
    tokens_out: array[int]
    steps: array[int]
    marks: array[int]
    rewards: array[float]
    began: array[float]
    seconds: array[float]
    queued: array[float]
    title_ends: array[int]

    def __init__(self) -> None:
        self.names = TextNumbers()
        for name, code in TYPES.items():
            setattr(self, name, array(code))
        self.titles = bytearray()
        self.components: dict[str, array[float]] = {}  # by name, NaN where a line has it not
        self.hops: dict[str, array[float]] = {}  # milliseconds
        self.more_components = False  # some were left out

    def __len__(self) -> int:
        return len(self.title_ends)

    @property
    def texts(self) -> list[str]:
        """Of `agents`, `kinds` and `toolsets`."""
        return self.names.texts

    def column(self, name: str) -> array[Any]:
        return getattr(self, name)  # type: ignore[no-any-return]

    def tools(self, number: int) -> tuple[str, ...]:
        """Of a number in `toolsets`."""
        text = self.texts[number]
        return tuple(text.split(TOOLS_APART)) if text else ()

    def tool_names(self) -> list[str]:
        """Every tool that any line used."""
        return sorted({tool for number in set(self.toolsets) for tool in self.tools(number)})

    def title(self, index: int) -> str:
        begin = self.title_ends[index - 1] if index else 0
        return self.titles[begin : self.title_ends[index]].decode("utf-8", "replace")

    def is_sound(self) -> bool:
        """Of what was read from a disk: every line is whole, and its texts are there."""
        numbers = (self.agents, self.kinds, self.toolsets)
        whole = {len(self.column(name)) for name in TYPES} == {len(self)}
        return whole and all(not one or max(one) < len(self.texts) for one in numbers)

    def add(self, facts: Facts, *, offset: int, length: int, number: int, check: int) -> None:
        self.offsets.append(offset)
        self.lengths.append(length)
        self.numbers.append(number)
        self.checks.append(check)
        self.agents.append(self.names.number(facts.agent))
        self.kinds.append(self.names.number(facts.kind))
        self.toolsets.append(self.names.number(TOOLS_APART.join(facts.tools)))
        self.digests.append(facts.digest)
        self.tasks.append(facts.task)
        self.repeats.append(facts.repeat)
        self.tokens.append(facts.tokens)
        self.tokens_in.append(facts.tokens_in)
        self.tokens_out.append(facts.tokens_out)
        self.steps.append(facts.steps)
        self.marks.append(TRUNCATED * facts.truncated | BREAKS * facts.breaks)
        self.rewards.append(facts.reward)
        self.began.append(facts.began)
        self.seconds.append(facts.seconds)
        self.queued.append(facts.queued)
        self._add_measures(self.hops, facts.hops)
        self.more_components |= self._add_measures(self.components, facts.components)
        self.titles += facts.title.encode("utf-8", "replace")
        self.title_ends.append(len(self.titles))

    def _add_measures(self, columns: dict[str, array[float]], found: Mapping[str, float]) -> bool:
        """True where some found no place."""
        full = False
        for name in found:
            if name not in columns:
                if len(columns) < MAX_MEASURES:
                    columns[name] = array("d", (NO_NUMBER,)) * len(self)
                else:
                    full = True
        for name, column in columns.items():
            column.append(found.get(name, NO_NUMBER))
        return full

    def fact(self, index: int) -> Facts:
        texts = self.texts
        return Facts(
            agent=texts[self.agents[index]],
            kind=texts[self.kinds[index]],
            reward=self.rewards[index],
            digest=self.digests[index],
            task=self.tasks[index],
            repeat=self.repeats[index],
            seconds=self.seconds[index],
            tokens=self.tokens[index],
            tokens_in=self.tokens_in[index],
            tokens_out=self.tokens_out[index],
            steps=self.steps[index],
            queued=self.queued[index],
            began=self.began[index],
            tools=self.tools(self.toolsets[index]),
            truncated=bool(self.marks[index] & TRUNCATED),
            breaks=bool(self.marks[index] & BREAKS),
            title=self.title(index),
            components=dict(self._measures(self.components, index)),
            hops=dict(self._measures(self.hops, index)),
        )

    def _measures(self, columns: Mapping[str, array[float]], index: int) -> Iterator[tuple[str, float]]:
        return ((name, column[index]) for name, column in columns.items() if not math.isnan(column[index]))
