"""Lines become tasks: checked at the edge, given their indices and agent, repeated in place, sharded, resumed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import orjson
from pydantic_core import from_json

from gym.collect.keys import DoneKeys, RowIndex, format_key, row_digest
from gym.collect.row_tools import NoTools, RowTools
from gym.collect.task_numbers import TaskNumbers
from gym.config.aliases import known_as
from gym.config.redaction import redact
from gym.data.line_source import Line
from gym.data.row_parsing import AGENT_REF, PARAMS, BadLine, bad_line, parse_row
from gym.errors import Problem
from gym.wire.deep_values import TOO_DEEP, TOO_DEEP_TO_CHANGE, is_too_deep
from gym.wire.json_text import write_any_json
from gym.wire.metrics import ROLLOUT, TASK
from gym.wire.policy_endpoint import KEY, URL, mask_key

_FLATTER = "make the row flatter"
_TASK, _ROLLOUT = (f',"{name}":%d'.encode() for name in (TASK, ROLLOUT))


class Task(NamedTuple):
    """One rollout to be done. `raw` is shared by all repeats of a row; `extra` is what this one adds."""

    raw: bytes
    extra: bytes
    key: str
    agent: str
    task_index: int
    rollout_index: int
    where: str
    secret: str = ""  # the key of an endpoint that the row brings along
    masked: bytes = b""  # `raw` without it

    def __repr__(self) -> str:
        return f"Task({self.key!r}, agent={self.agent!r}, where={self.where!r})"  # no body: it may hold the key

    @property
    def body(self) -> bytes:
        return self.raw[:-1] + self.extra

    @property
    def written(self) -> bytes:
        """The body as a file may hold it."""
        return (self.masked or self.raw)[:-1] + self.extra


@dataclass(frozen=True, slots=True)
class TaskRules:
    """How rows become tasks."""

    agents: Collection[str]
    agent: str = ""
    limit: int | None = None
    repeats: int = 1
    shard: tuple[int, int] = (1, 1)
    params: tuple[tuple[str, Any], ...] = ()
    tools: RowTools = field(default_factory=RowTools)
    one_file: bool = False  # what is read is one data set: no two kinds of its rows may get the same task's number


class TaskReader:
    """Reads lines once, in order; what it remembers of each of many rows is 16 to 48 bytes."""

    def __init__(self, rules: TaskRules, *, done: DoneKeys | None = None) -> None:
        self._rules = rules
        self._done = DoneKeys() if done is None else done
        self._lines = RowIndex()  # by the digest of the text
        self._given = RowIndex()  # by a `_ng_task_index` that the row brought along
        self._numbers = TaskNumbers() if rules.one_file else None
        self._refs: dict[str, bytes] = {}  # by agent: the field for rows that name none
        self.total = 0  # tasks of this shard, done ones included
        self.rows = 0

    def for_agent(self, agent: str) -> TaskReader:
        """A reader of other rows in the same run: keys and indices go on, rows that name no agent are of this one."""
        other = copy(self)
        other._rules = replace(self._rules, agent=agent)
        return other

    def read(
        self, lines: Iterable[Line], materialize: Callable[[bytes], object] | None = None
    ) -> Iterator[Task | Problem]:
        """The tasks that are still to be done, and the lines that are not rows. Every task's body is materialized."""
        for item in self.read_all(lines, materialize):
            if isinstance(item, Problem):
                yield item
            elif not item[1]:
                yield item[0]

    def read_all(
        self, lines: Iterable[Line], materialize: Callable[[bytes], object] | None = None
    ) -> Iterator[tuple[Task, bool] | Problem]:
        """Every task, and whether it is done."""
        for line in lines:
            if self._rules.limit is not None and self.rows >= self._rules.limit:
                return
            self.rows += 1
            try:
                tasks = self._line_to_tasks(line)
            except BadLine as bad:
                yield bad.problem
                continue
            for digest, repeat, task in tasks:
                self.total += 1
                if materialize is not None:
                    materialize(task.written + b"\n")
                yield task, self._done.has(digest, repeat)

    def _line_to_tasks(self, line: Line) -> list[tuple[int, int, Task]]:
        row = parse_row(line)
        agent = find_agent(row, line, self._rules)
        secret = secret_of(row)
        try:
            shown = mask_row(line.raw, secret)
        except ValueError:
            raise bad_line(line, TOO_DEEP_TO_CHANGE, hint=_FLATTER) from None
        digest = row_digest(shown)  # the same row with another key is still the same row
        index, first = self._lines.count(digest, self._rules.repeats)
        given = len(row)
        task_index, first_rollout = self._indices(row, index, first)
        if self._numbers is not None:
            self._check_number(self._numbers, line, task_index if TASK in row else None, index)
        part, parts = self._rules.shard
        if index % parts != part - 1:
            return []
        raw, added = self._prepare(line, row, agent, given)
        masked = shown if raw is line.raw else mask_row(raw, secret)
        where = f"{line.file}:{line.number}"
        return [
            (
                digest,
                first + repeat,
                Task(
                    raw,
                    _extra(row, task_index, first_rollout + repeat, added),
                    format_key(digest, first + repeat),
                    agent,
                    task_index,
                    first_rollout + repeat,
                    where,
                    secret,
                    masked if masked is not raw else b"",
                ),
            )
            for repeat in range(self._rules.repeats)
        ]

    def _indices(self, row: dict[str, Any], index: int, first: int) -> tuple[int, int]:
        """(`_ng_task_index`, the first `_ng_rollout_index`): what the row brought is honoured."""
        if TASK not in row and ROLLOUT not in row:
            return index, first
        task, rollout = _index(row.get(TASK)), _index(row.get(ROLLOUT))
        if task is None:
            row.pop(TASK, None)
            row.pop(ROLLOUT, None)
            return index, first
        if rollout is not None and self._rules.repeats == 1:
            return task, rollout
        row.pop(ROLLOUT, None)
        _, counted = self._given.count(task + 1, self._rules.repeats)
        return task, counted

    def _check_number(self, numbers: TaskNumbers, line: Line, brought: int | None, index: int) -> None:
        if brought is None:
            other = numbers.find_by_place(line, index)
            what = f"is missing, and this row's place makes it task {index}, which {other} brings along"
        else:
            other = numbers.find_brought(line, brought, index)
            what = f"is {brought}, and so is the task of {other}, which brings none, by its place"
        if other:
            raise bad_line(line, what, key=TASK, hint="give every row its own, or leave it out of all")

    def _prepare(self, line: Line, row: dict[str, Any], agent: str, given: int) -> tuple[bytes, bytes]:
        """The row's bytes, untouched unless something in them must go, and what is to be added. `given`: its fields."""
        raw, added = line.raw, b""
        try:
            changed = self._rules.tools.add_to(row, agent)
        except NoTools as error:
            raise bad_line(line, str(error), key=f"{PARAMS}.tools", hint="list them in the row") from None
        if not isinstance(row.get(AGENT_REF), dict):
            row.pop(AGENT_REF, None)
            added = self._refs.get(agent) or self._refs.setdefault(agent, _write_ref(agent))
        if self._rules.params:
            row[PARAMS] = {**row[PARAMS], **dict(self._rules.params)}
        if changed or self._rules.params or len(row) != given:  # a field was taken out that its bytes still have
            try:
                raw = orjson.dumps(row)
            except TypeError as error:
                if not is_too_deep(error):
                    raise
                raise bad_line(line, TOO_DEEP, hint=_FLATTER) from None
        return raw, added


def secret_of(row: Mapping[str, Any]) -> str:
    """The key that must not be written down; "" for the many rows that bring none."""
    key = row.get(KEY)
    return key if isinstance(key, str) else ""


def mask_row(raw: bytes, secret: str) -> bytes:
    """The same object where there is nothing to hide; a `ValueError` where it is nested too deep to say."""
    if b"policy_" not in raw:
        return raw
    row = from_json(raw)
    masked = mask_key(row, secret)
    if isinstance(masked.get(URL), (str, list)):
        masked[URL] = redact(masked[URL])
    return raw if masked == row else write_any_json(masked)


def find_agent(row: dict[str, Any], line: Line, rules: TaskRules) -> str:
    """The row's own agent, else the one asked for, else the only one there is."""
    ref = row.get(AGENT_REF)
    if ref is not None and not (isinstance(ref, dict) and isinstance(ref.get("name"), str)):
        raise bad_line(
            line, "names no agent", key=AGENT_REF, hint='write {"type": "responses_api_agents", "name": "..."}'
        )
    name = ref["name"] if ref is not None else rules.agent
    if name in rules.agents:
        return str(name)
    if name and (current := known_as(str(name), rules.agents)):
        return current  # under another of its historical names
    if name:
        near = difflib.get_close_matches(str(name), rules.agents, n=3, cutoff=0.5) or sorted(rules.agents)[:5]
        raise bad_line(
            line, f"the stack has no agent {name!r}", key=AGENT_REF, hint=f"it has {' or '.join(near) or 'none'}"
        )
    if len(rules.agents) == 1:
        return next(iter(rules.agents))
    names = ", ".join(sorted(rules.agents)) or "none"
    hint = f"add it, or use --agent with one of: {names}"
    raise bad_line(line, "the row names no agent, and the stack has several", key=AGENT_REF, hint=hint)


def _write_ref(agent: str) -> bytes:
    return b"," + orjson.dumps({AGENT_REF: {"type": "responses_api_agents", "name": agent}})[1:-1]


def _extra(row: dict[str, Any], task: int, rollout: int, added: bytes) -> bytes:
    """The end of the body: `,"field":...}` for each index that the row lacks, and what else is added."""
    first = b"" if TASK in row else _TASK % task
    second = b"" if ROLLOUT in row else _ROLLOUT % rollout
    return b"%b%b%b}" % (first, second, added)


def _index(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None
