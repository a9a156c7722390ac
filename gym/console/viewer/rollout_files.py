"""What the pages say of runs: the head, the list, groups by task, one line. Each request reads what was appended."""

from __future__ import annotations

import bisect
import functools
import math
import re
from array import array
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from gym.collect.sidecar import OutputPaths
from gym.console.pages.shell import NotThere
from gym.console.viewer.facts import MALFORMED, Facts, parse_line
from gym.console.viewer.lines import LineFile
from gym.console.viewer.notes import NotesBeside
from gym.console.viewer.query import FAILED, Flags, Found, Place, Places, Query, Sources, find
from gym.console.viewer.run_files import FAILURES, RunFiles
from gym.console.viewer.task_groups import TaskGroup, group_places, in_order
from gym.console.viewer.text_search import TextSearches
from gym.wire.metrics import ROLLOUT, TASK

MAX_NAMES = 500  # agents, tools, components that the head lists
_MAX_TEXT = 20_000  # characters shown of a line that cannot be read


class NoSuchRollout(NotThere):
    """A place that no longer is, or never was."""


class RolloutFiles:
    """May be asked from several threads."""

    def __init__(self, given: RunFiles | Iterable[Path], flags: Flags | None = None) -> None:
        self.runs = given if isinstance(given, RunFiles) else RunFiles(given)
        self.notes = NotesBeside(self.runs.given)
        self._flags = flags or self.notes.flagged
        self._searches = TextSearches()
        self._found: dict[Query, tuple[int, Found]] = {}
        self._grouped = functools.lru_cache(maxsize=2)(self._group)
        self._tallied = functools.lru_cache(maxsize=2)(self._tallies)

    @property
    def files(self) -> list[LineFile]:
        return self.runs.files

    @property
    def generation(self) -> int:
        return self.runs.generation

    def refresh(self, *, whole: bool = False, first: Collection[str] = ()) -> None:
        self.runs.refresh(whole=whole, first=first)

    def find(self, query: Query) -> Found:
        """The last answers are kept while no file changes, and a search until it is through."""
        with self.runs.lock:
            generation, found = self._found.get(query, (-1, None))
            if found is None or generation != self.generation or found.searched < 1 or query.flagged:
                found = find(self._sources(query), query)
            self._found.pop(query, None)
            self._found[query] = self.generation, found
            while len(self._found) > 3:
                del self._found[next(iter(self._found))]
            return found

    def groups(self, found: Found, sort: str) -> Sequence[TaskGroup]:
        with self.runs.lock:
            return self._grouped(_Same(found.places), self.generation, sort)

    def _group(self, places: _Same, _generation: int, sort: str) -> Sequence[TaskGroup]:
        return group_places(dict(enumerate(self.files)), places.value, sort)

    def _sources(self, query: Query) -> Sources:
        says = self._searches.begin(query.text)
        return Sources([(self.runs.number(file), file) for file in self.runs.shown()], says, self._flags)

    def summary(self, runs: tuple[str, ...] = ()) -> dict[str, Any]:
        """The head of the page: all runs, and the sums of those that are named, or of all."""
        with self.runs.lock:
            tallies = self._tallied(self.generation, runs)
            kinds: dict[str, int] = {}
            for (_, kind), tally in tallies.items():
                if kind:
                    kinds[kind] = kinds.get(kind, 0) + tally.count
            malformed = kinds.pop(MALFORMED, 0)
            extremes = [tally for tally in tallies.values() if tally.rewarded]
            columns = [file.columns for file in self.runs.of(runs)]
            return {
                "generation": self.generation,
                "indexed": self.runs.indexed(runs),
                "runs": [_run_view(run.name, run.files) for run in self.runs.runs.values()],
                "files": [_file_view(file) for file in self.runs.shown()],
                "agents": _agent_views(tallies)[:MAX_NAMES],
                "tools": sorted({tool for one in columns for tool in one.tool_names()})[:MAX_NAMES],
                "components": sorted({name for one in columns for name in one.components})[:MAX_NAMES],
                "repeated": any(one.repeats and max(one.repeats) > 0 for one in columns),
                "count": sum(tally.count for (_, kind), tally in tallies.items() if not kind),
                "kinds": dict(sorted(kinds.items(), key=lambda one: -one[1])),
                "malformed": malformed,
                "range": [min(one.low for one in extremes), max(one.high for one in extremes)] if extremes else None,
                "notices": [*self.runs.problems(), *map(_torn, self._torn_files(runs)), *self._not_noted()],
            }

    def _torn_files(self, runs: Collection[str]) -> list[LineFile]:
        return [file for file in self.runs.of(runs) if file.torn]

    def _not_noted(self) -> list[str]:
        """Said before a reader writes a note that cannot be stored."""
        return list(dict.fromkeys(filter(None, (self.notes.of(file).problem() for file in self.runs.shown()))))

    def _tallies(self, _generation: int, runs: tuple[str, ...]) -> dict[tuple[str, str], RewardSum]:
        """(agent, kind) -> how many, and their rewards."""
        tallies: dict[tuple[str, str], RewardSum] = {}
        for columns in (file.columns for file in self.runs.of(runs)):
            texts, rewards = columns.texts, columns.rewards
            indices: dict[tuple[int, int], list[int]] = {}
            for index, pair in enumerate(zip(columns.agents, columns.kinds, strict=True)):
                indices.setdefault(pair, []).append(index)
            for (agent, kind), chosen in indices.items():
                tallies.setdefault((texts[agent], texts[kind]), RewardSum()).add([rewards[each] for each in chosen])
        return tallies

    def view(self, place: Place) -> dict[str, Any]:
        """A line of the list."""
        with self.runs.lock:
            file, index = self._at(place)
            facts = file.columns.fact(index)
            line = file.columns.numbers[index]
            note = self.notes.find(file).get(index)
        return {
            "id": f"{file.run}:{'f' if file.failed else ''}{line}",
            "run": file.run,
            "failures": file.failed,
            "line": line,
            "title": facts.title,
            "flagged": note is not None and note.flag,
            **_facts_view(facts),
        }

    def group_view(self, group: TaskGroup, max_rows: int) -> dict[str, Any]:
        with self.runs.lock:
            places = in_order(dict(enumerate(self.files)), group)
        rows = [self.view(place) for place in Places(array("Q", places[:max_rows]))]
        return {
            "run": group.run,
            "task": group.task if group.task >= 0 else None,
            "title": next((row["title"] for row in rows if row["title"] and not row["failures"]), rows[0]["title"]),
            "count": len(places),
            "mean": None if math.isnan(group.mean) else group.mean,
            "spread": group.spread,
            "rows": rows,
        }

    def place(self, id: str) -> Place:
        """Of `RUN:LINE`, or `RUN:fLINE` for a failure. A run that is not among those given is not looked for."""
        name, _, line = id.rpartition(":")
        run, digits = self.runs.runs.get(name), line.removeprefix("f")
        if run is None or not (digits.isascii() and digits.isdecimal() and len(digits) < 12):
            raise NoSuchRollout(f"no rollout {id[:200]}")
        file = run.failures if line.startswith("f") else run.rollouts
        with self.runs.lock:
            numbers = file.columns.numbers
            index = bisect.bisect_left(numbers, int(digits))
            if index == len(numbers) or numbers[index] != int(digits):
                raise NoSuchRollout(f"no rollout {id[:200]}: its file has changed, or is still being read")
            return self.runs.number(file), index

    def line(self, place: Place) -> bytes:
        return self._read(place).strip()

    def problem(self, place: Place) -> dict[str, Any]:
        """A malformed line: where it is, what is wrong with it, how it begins."""
        file, index = self._at(place)
        raw = self._read(place).strip()
        _, reason = parse_line(raw)
        text = raw[: _MAX_TEXT * 4].decode("utf-8", "replace")[:_MAX_TEXT]
        where = f"{file.path}:{file.columns.numbers[index]}"
        return {"where": where, "reason": reason, "bytes": len(raw), "text": text}

    def asked(self, place: Place) -> bytes:
        """The row as it was sent: its line of the materialized inputs, b"" where there is none."""
        file, index = self._at(place)
        facts = file.columns.fact(index)
        stem = file.path.name.removesuffix(FAILURES).removesuffix(".jsonl")
        inputs = OutputPaths.beside(file.path.with_name(f"{stem}.jsonl")).materialized
        there = facts.task >= 0 and inputs.is_file() and self.runs.is_inside(inputs)
        return _find_row(inputs, facts) if there else b""

    def is_malformed(self, place: Place) -> bool:
        file, index = self._at(place)
        return file.columns.fact(index).kind == MALFORMED

    def _read(self, place: Place) -> bytes:
        file, index = self._at(place)
        if not self.runs.is_inside(file.path):
            raise NoSuchRollout(f"{file.path} is no longer in the folder")
        raw = file.read(index)
        if not file.is_same(raw, index):
            raise NoSuchRollout(f"{file.path} was rewritten; reload the page")
        return raw

    def _at(self, place: Place) -> tuple[LineFile, int]:
        number, index = place
        if not (number < len(self.files) and index < len(self.files[number])):
            raise NoSuchRollout(f"no rollout {number}/{index}: its file has changed; reload the page")
        return self.files[number], index


class _Same:
    """A key that is the object itself."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


class RewardSum:
    def __init__(self) -> None:
        self.count = self.rewarded = 0
        self.total = 0.0
        self.low, self.high = math.inf, -math.inf

    def add(self, rewards: Sequence[float]) -> None:
        self.count += len(rewards)
        known = [reward for reward in rewards if reward == reward]
        if known:
            self.rewarded += len(known)
            self.total += sum(known)
            self.low, self.high = min(self.low, min(known)), max(self.high, max(known))


def _agent_views(tallies: dict[tuple[str, str], RewardSum]) -> list[dict[str, Any]]:
    views: dict[str, dict[str, Any]] = {}
    for (agent, kind), tally in tallies.items():
        if kind == MALFORMED:
            continue
        view = views.setdefault(agent, {"name": agent, "count": 0, "mean": None, FAILED: 0})
        if kind:
            view[FAILED] += tally.count
        else:
            view["count"] += tally.count
            view["mean"] = tally.total / tally.rewarded if tally.rewarded else None
    return sorted(views.values(), key=lambda view: str(view["name"]))


def _facts_view(facts: Facts) -> dict[str, Any]:
    return {
        "agent": facts.agent,
        "kind": facts.kind,
        "reward": _known(facts.reward),
        "task": _known(facts.task),
        "repeat": _known(facts.repeat),
        "seconds": None if math.isnan(facts.seconds) else round(facts.seconds, 4),
        "tokens": _known(facts.tokens),
        "steps": facts.steps,
        "began": _known(facts.began),
        "tools": facts.tools,
        "truncated": facts.truncated,
        "breaks": facts.breaks,
        "components": facts.components,
    }


def _known(value: float) -> float | None:
    """NaN, and a count below zero, stand for what is not known."""
    return None if value != value or (isinstance(value, int) and value < 0) else value


def _run_view(name: str, files: Sequence[LineFile]) -> dict[str, Any]:
    rollouts, failures = files
    return {
        "name": name,
        "path": str(rollouts.path),
        "lines": len(rollouts),
        FAILED: len(failures),
        "bytes": rollouts.size + failures.size,
    }


def _file_view(file: LineFile) -> dict[str, Any]:
    return {"name": str(file.path), "run": file.run, "lines": len(file), "bytes": file.size, "failures": file.failed}


def _torn(file: LineFile) -> str:
    where = f"{file.path}:{(file.columns.numbers[-1] if file.columns.numbers else 0) + 1}"
    return f"{where}: the last line is unfinished ({file.torn} bytes): still being written, or torn by a crash"


def _find_row(path: Path, facts: Facts) -> bytes:
    """Looked for without parsing the others: a data set may be large."""
    sign = re.compile(rf'"{TASK}": ?{facts.task}\b'.encode())
    with path.open("rb", buffering=1 << 20) as stream:
        for raw in stream:
            if sign.search(raw):
                row = parse_line(raw)[0] or {}
                if row.get(TASK) == facts.task and row.get(ROLLOUT, facts.repeat) == facts.repeat:
                    return raw.strip()
    return b""
