"""The files of a finished collection, read back: every rollout with its place, every input by its indices.

Streamed; an input file takes 80 bytes a line. What cannot be read is an error with file and line.
"""

from __future__ import annotations

import difflib
import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

import orjson

from gym.collect.keys import DigestTable, parse_key
from gym.collect.result_file import refuse_byte_order_mark
from gym.collect.run_replies import STAMP
from gym.collect.sidecar import OutputPaths
from gym.data.file_kinds import open_lines
from gym.data.row_parsing import AGENT_REF, PARAMS, no_number_hint
from gym.errors import UserError
from gym.wire.json_text import read_json
from gym.wire.metrics import ROLLOUT, TASK

_BUFFER = 4 << 20
_NOT_COLLECTED = "is this a file of gym rollouts?"


class Recorded(NamedTuple):
    """One line of X.jsonl."""

    fields: dict[str, Any]
    reward: float
    task: int  # `_ng_task_index`
    repeat: int  # `_ng_rollout_index`
    agent: str
    digest: int | None  # of the row's text; other collectors write none
    where: str  # file:line
    offset: int
    raw: bytes


class RecordedInput(NamedTuple):
    """One line of X_materialized_inputs.jsonl: the body that `/run` was given."""

    body: bytes
    fields: dict[str, Any]
    where: str


def find_rollouts(given: Path) -> OutputPaths:
    """The files of the collection that `given` names: its X.jsonl, or X alone."""
    for path in (given, given.with_name(given.name + ".jsonl")):
        if path.is_file():
            _open(path).close()  # what is not a file of lines is called so before a file beside it is missed
            return OutputPaths.beside(path)
    folder = given.parent
    names = [path.name for path in folder.glob("*.jsonl")] if folder.is_dir() else []
    near = difflib.get_close_matches(given.name, names, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "name the file that gym rollouts -o wrote"
    raise UserError(f"there is no file {given}", hint)


def read_rollouts(path: Path) -> Iterator[Recorded]:
    """Every rollout, in the order in which they finished."""
    for number, offset, line in read_places(path):
        yield parse_rollout(line, f"{path}:{number}", offset)


def read_places(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """(line number, byte offset, line) of every line that is not blank."""
    offset = 0
    with _open(path) as stream:
        for number, line in enumerate(stream, 1):
            if number == 1:
                refuse_byte_order_mark(path, line)
            if line.strip():
                yield number, offset, line
            offset += len(line)


def parse_rollout(line: bytes, where: str, offset: int = 0) -> Recorded:
    fields = _parse(line, where)
    reward, stamp = fields.get("reward"), fields.get(STAMP)
    if reward is None and isinstance(stamp, dict) and "terminal" in stamp:
        raise UserError(f"{where}: this is a failure, which has no reward", "name the file of rollouts beside it")
    if isinstance(reward, bool) or not isinstance(reward, (int, float)) or not math.isfinite(reward):
        raise UserError(f"{where}: reward: {_found(fields, 'reward')}", _NOT_COLLECTED)
    ref = fields.get(AGENT_REF)
    return Recorded(
        fields=fields,
        reward=float(reward),
        task=read_index(fields, TASK, where),
        repeat=read_index(fields, ROLLOUT, where),
        agent=str(ref.get("name") or "") if isinstance(ref, dict) else "",
        digest=_digest(stamp, where) if isinstance(stamp, dict) else None,
        where=where,
        offset=offset,
        raw=line,
    )


def read_index(fields: dict[str, Any], name: str, where: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise UserError(f"{where}: {name}: {_found(fields, name)}", _NOT_COLLECTED)
    return value


def _found(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return f"is {'null' if value is None else repr(value)}" if name in fields else "is missing"


def is_whole(paths: OutputPaths) -> bool:
    """False where a collection of ours has not read its input to the end: then the file of inputs is not whole."""
    return paths.metrics.is_file() or not paths.run.is_file()


class Inputs:
    """The materialized inputs, found by task and repeat without holding them. Use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.total = 0
        self._lines = DigestTable(values=True)  # (task, repeat) -> line number
        self._tasks = DigestTable(values=True)  # task -> place in the two below
        self._first_lines = array("Q")
        self._counts = array("Q")
        self._offsets = array("Q", (0,))
        self._line_tasks = array("q", (-1,))  # of each line, the task
        self._line_repeats = array("q", (-1,))  # and the repeat
        self._stream = _open(path)
        try:
            self._read()
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def find(self, task: int, repeat: int) -> RecordedInput | None:
        number = self._lines.get(mix(task, repeat))
        return None if number is None else self.at(number)

    def need(self, rollout: Recorded) -> RecordedInput:
        found = self.find(rollout.task, rollout.repeat)
        if found is None:
            what = f"{self.path} has no input of task {rollout.task}, repeat {rollout.repeat}"
            raise UserError(f"{rollout.where}: {what}", "are these two files of the same collection?")
        return found

    def expected(self, task: int) -> int:
        """How many rollouts of a task were asked for."""
        place = self._tasks.get(mix(task))
        return 0 if place is None else self._counts[place]

    def first_line(self, task: int) -> int:
        place = self._tasks.get(mix(task))
        return 0 if place is None else self._first_lines[place]

    def at(self, number: int) -> RecordedInput:
        self._stream.seek(self._offsets[number])
        body = self._stream.readline().strip()
        where = f"{self.path}:{number}"
        return RecordedInput(body, _parse(body, where), where)

    def tasks(self) -> Iterator[tuple[int, int]]:
        """(task, its first line) in the order of the file."""
        for number in range(1, len(self._offsets)):
            task = self._line_tasks[number]
            if self.first_line(task) == number:
                yield task, number

    def pairs(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """(line number, (task, repeat)) of every line."""
        pairs = zip(self._line_tasks, self._line_repeats, strict=True)
        return ((number, pair) for number, pair in enumerate(pairs) if number)

    def _read(self) -> None:
        offset = 0
        for number, line in enumerate(self._stream, 1):
            where = f"{self.path}:{number}"
            if number == 1:
                refuse_byte_order_mark(self.path, line)
            fields = _parse(line, where)
            task, repeat = read_index(fields, TASK, where), read_index(fields, ROLLOUT, where)
            if not self._lines.add(mix(task, repeat), number):
                raise UserError(f"{where}: task {task}, repeat {repeat} is there twice", "remove one of them")
            self._offsets.append(offset)
            self._line_tasks.append(task)
            self._line_repeats.append(repeat)
            self._count(task, number)
            offset += len(line)
            self.total = number

    def _count(self, task: int, number: int) -> None:
        if self._tasks.add(mix(task), len(self._counts)):
            self._first_lines.append(number)
            self._counts.append(0)
        self._counts[self._tasks.get(mix(task)) or 0] += 1


def open_inputs(path: Path) -> Inputs:
    """What each rollout was asked; without it nothing can be re-run."""
    if not path.is_file():
        raise UserError(
            f"there is no file {path}, which has the input of each rollout",
            "gym rollouts writes it beside its output; name it with --inputs FILE when it is elsewhere",
        )
    return Inputs(path)


def _open(path: Path) -> BinaryIO:
    try:
        return open_lines(path, _BUFFER, unpacked=())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def _parse(line: bytes, where: str) -> dict[str, Any]:
    """Text that is none, as half a surrogate pair, is U+FFFD: other collectors write what a model wrote."""
    try:
        fields = read_json(line)
    except orjson.JSONDecodeError as error:
        if not line.endswith(b"\n"):
            hint = "run the same gym rollouts: it cuts the torn line and collects what is missing"
            raise UserError(f"{where}: the last line is torn; the collection did not end", hint) from None
        hint = no_number_hint(line, error.pos) or _NOT_COLLECTED
        raise UserError(f"{where}: not JSON: {error}", hint) from None
    if not isinstance(fields, dict):
        raise UserError(f"{where}: not an object", _NOT_COLLECTED)
    return fields


def _digest(stamp: dict[str, Any], where: str) -> int:
    try:
        return parse_key(stamp["key"])[0]
    except (KeyError, ValueError, AttributeError):
        raise UserError(f"{where}: {STAMP}.key is {stamp.get('key')!r}, not a key", _NOT_COLLECTED) from None


def mix(*numbers: int) -> int:
    """Small numbers as a key of a `DigestTable`, whose keys are digests elsewhere."""
    return hash(numbers) & 0xFFFF_FFFF_FFFF_FFFF


_ADDED = f',"{TASK}":'.encode()


def original_text(one: RecordedInput) -> bytes:
    """The row as it stood in the data set: without the indices that the collector added, else byte for byte."""
    at = one.body.rfind(_ADDED)
    if at > 0:
        try:
            added = orjson.loads(b"{" + one.body[at + 1 :])
            row = orjson.loads(one.body[:at] + b"}")
        except orjson.JSONDecodeError:
            added, row = {}, {}
        if added.keys() <= {TASK, ROLLOUT, AGENT_REF} and ROLLOUT in added and PARAMS in row:
            return one.body[:at] + b"}"
    return orjson.dumps({name: value for name, value in one.fields.items() if name not in (TASK, ROLLOUT)})
