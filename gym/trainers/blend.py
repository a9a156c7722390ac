"""Rows of several environments in one stream: each part gets its weight of the groups that are delivered."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from gym.collect.feed import Rows
from gym.collect.task_reader import Task, TaskReader
from gym.data.line_source import Line, expand_inputs, is_blank, read_lines, row_to_line
from gym.errors import Problem, UserError
from gym.trainers.curriculum import PassRates, RunningRate
from gym.trainers.group_options import GroupOptions

_READ_AHEAD = 64  # lines of a file, read by a thread
_BREATHER = 256  # rows at rest that are passed over before others have their turn
_OPENS_AFTER = 4  # groups that have to be measured before a level may be called passed


@dataclass(frozen=True, slots=True)
class Source:
    """One part of a blend: rows (mappings, their JSON text, or JSONL files by path or glob) and their weight."""

    name: str
    rows: Rows | str | Path
    weight: float = 1.0
    agent: str = ""  # for rows that name none


@dataclass(frozen=True, slots=True)
class Draw:
    """A row that was chosen, as many tasks as a group begins with."""

    part: BlendPart
    number: int  # of the row, from 0
    epoch: int
    tasks: list[Task]


@dataclass(slots=True, eq=False)
class BlendPart:
    """A source and how it has fared."""

    source: Source
    reader: TaskReader
    weight: float
    rates: PassRates | None
    lines: AsyncGenerator[tuple[int, int, Line], None]
    taken: float = 0.0  # its running balance: groups drawn and not dropped
    joined: bool = False  # it takes part in the balance
    drawn_epoch: int = 0  # of the last row that was drawn
    delivered: int = 0
    incomplete: int = 0
    dropped: int = 0
    dropped_in_a_row: int = 0
    rested: int = 0  # rows that the curriculum passed over
    pass_rate: RunningRate = field(default_factory=RunningRate)
    exhausted: bool = False

    @property
    def name(self) -> str:
        return self.source.name


class Blend:
    """Chooses the next row. The part that is furthest behind its weight comes next, so shares hold at any moment."""

    def __init__(self, sources: Sequence[Source], reader: TaskReader, options: GroupOptions) -> None:
        check_sources(sources)
        self._curriculum = options.curriculum
        self.bad_rows: list[Problem] = []  # the first ones
        self.bad = 0
        self._skips = options.skip_bad_rows
        self.parts = [_make_part(source, reader, options) for source in sources]

    async def draw(self) -> Draw | None:
        """None when no part has a row left."""
        while (part := self._choose()) is not None:
            async for epoch, number, line in part.lines:
                self._check_epoch(part, epoch)
                if part.rates is not None and not part.rates.wants(number, epoch, line.raw):
                    part.rested += 1
                    if part.rested % _BREATHER == 0:
                        await asyncio.sleep(0)
                elif tasks := self._read(part, line):
                    part.taken += 1
                    part.drawn_epoch = epoch
                    return Draw(part, number, epoch, tasks)
            part.exhausted = True
        return None

    async def aclose(self) -> None:
        for part in self.parts:
            await part.lines.aclose()

    def give_back(self, part: BlendPart) -> None:
        """A group of it was dropped: its place in the balance is free."""
        part.taken -= 1

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """From the next row on. Parts that are not named keep theirs; the balance starts over."""
        names = {part.name for part in self.parts}
        for name in weights:
            if name not in names:
                raise UserError(f"the blend has no part {name!r}", f"it has {', '.join(sorted(names))}")
        merged = {part.name: weights.get(part.name, part.weight) for part in self.parts}
        check_weights(merged)
        for part in self.parts:
            part.weight, part.taken, part.joined = merged[part.name], 0.0, False

    def _choose(self) -> BlendPart | None:
        able = [part for part in self._open_parts() if not part.exhausted and part.weight > 0]
        if not able:
            return None
        level = min((part.taken / part.weight for part in able if part.joined), default=0.0)
        for part in able:
            if not part.joined:  # it has nothing to catch up with
                part.joined, part.taken = True, level * part.weight
        return min(able, key=lambda part: (part.taken + 1) / part.weight)

    def _open_parts(self) -> list[BlendPart]:
        """All of them; of levels those up to the first that is not passed yet."""
        level = self._curriculum.next_level_at if self._curriculum else None
        if level is None:
            return self.parts
        opened: list[BlendPart] = []
        for part in self.parts:
            opened.append(part)
            if not part.exhausted and not _is_passed(part, level):
                break
        return opened

    def _check_epoch(self, part: BlendPart, epoch: int) -> None:
        """Rows for ever, and none to be had: bad ones, or all of them at rest."""
        rest = self._curriculum.rest if self._curriculum else 0
        if epoch > part.drawn_epoch + rest + 1:
            what = f"{part.name}: none of its rows was any good in epochs {part.drawn_epoch + 1} to {epoch - 1}"
            raise UserError(
                f"{what}: {self.bad} bad rows, {part.rested} at rest", "fix the rows, or widen the curriculum"
            )

    def _read(self, part: BlendPart, line: Line) -> list[Task]:
        tasks: list[Task] = []
        for item in part.reader.read([line]):
            if isinstance(item, Task):
                tasks.append(item)
            else:
                self._note_bad(item)
        return tasks

    def _note_bad(self, problem: Problem) -> None:
        self.bad += 1
        if not self._skips:
            raise UserError(str(problem), "fix it, or go on without such rows: skip_bad_rows=True")
        if len(self.bad_rows) < 20:
            self.bad_rows.append(problem)


def to_sources(rows: Rows | str | Path | Sequence[Source]) -> list[Source]:
    """What a caller may give: parts of a blend, or one set of rows."""
    if isinstance(rows, (str, Path)):
        return [Source(Path(rows).stem, rows)]
    if isinstance(rows, Sequence) and any(isinstance(one, Source) for one in rows):
        if strange := [one for one in rows if not isinstance(one, Source)]:
            raise UserError(f"a blend has rows beside its parts: {str(strange[0])[:100]}", "make each a Source")
        return [one for one in rows if isinstance(one, Source)]
    return [Source("rows", rows)]


def check_sources(sources: Sequence[Source]) -> None:
    if not sources:
        raise UserError("there is nothing to draw from", "give rows, or a Source at least")
    names = [one.name for one in sources]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"two parts of the blend are named {twice[0]!r}", "give each a name of its own")
    check_weights({one.name: one.weight for one in sources})


def check_weights(weights: Mapping[str, float]) -> None:
    for name, weight in weights.items():
        if not (isinstance(weight, (int, float)) and math.isfinite(weight) and weight >= 0):
            raise UserError(f"the weight of {name!r} is {weight}", "a weight is 0 or more; 0 leaves a part out for now")
    if not any(weights.values()):
        raise UserError(f"all weights are 0: {', '.join(weights)}", "give one of them a weight above 0")


def _make_part(source: Source, reader: TaskReader, options: GroupOptions) -> BlendPart:
    curriculum, rows = options.curriculum, source.rows
    if isinstance(rows, (Iterator, AsyncIterator)) and options.epochs != 1:
        what = f"the rows of {source.name!r} can be read once, and epochs is {options.epochs}"
        raise UserError(what, "give a list or a file, or epochs=1")
    if isinstance(rows, Mapping):
        raise UserError(f"the rows of {source.name!r} are one mapping", "give a list of rows: [row]")
    files = expand_inputs([str(rows)]) if isinstance(rows, (str, Path)) else ()
    return BlendPart(
        source=source,
        reader=reader.for_agent(source.agent),
        weight=source.weight,
        rates=PassRates(curriculum) if curriculum else None,
        lines=_read_epochs(source, files, options.epochs),
    )


async def _read_epochs(
    source: Source, files: tuple[str, ...], epochs: int | None
) -> AsyncGenerator[tuple[int, int, Line], None]:
    """(epoch, number, line), epoch after epoch."""
    epoch = 0
    while epochs is None or epoch < epochs:
        number = 0
        async for line in _read_files(files) if files else _read_rows(source):
            yield epoch, number, line
            number += 1
        if number == 0:
            raise UserError(f"{source.name}: no rows", "a data set has one JSON object on each line")
        epoch += 1


async def _read_files(files: tuple[str, ...]) -> AsyncIterator[Line]:
    lines = read_lines(files)
    while batch := await asyncio.to_thread(_take, lines):
        for line in batch:
            yield line


async def _read_rows(source: Source) -> AsyncIterator[Line]:
    rows, number = source.rows, 0
    if isinstance(rows, AsyncIterable):
        async for row in rows:
            number += 1
            if not is_blank(row):
                yield row_to_line(row, source.name, number)
    elif not isinstance(rows, (str, Path)):
        for number, row in enumerate(rows, 1):
            if not is_blank(row):
                yield row_to_line(row, source.name, number)


def _take(lines: Iterator[Line]) -> list[Line]:
    return list(islice(lines, _READ_AHEAD))


def _is_passed(part: BlendPart, level: float) -> bool:
    rate = part.pass_rate
    return rate.groups >= _OPENS_AFTER and rate.rate is not None and rate.rate >= level
