"""Files of rollouts with the failures beside them; each request reads what was appended."""

from __future__ import annotations

import functools
import math
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gym.collect.sidecar import OutputPaths
from gym.console.pages.shell import NotThere
from gym.console.viewer.facts import MALFORMED, Facts, parse_line, read_title
from gym.console.viewer.lines import LineFile, TextNumbers
from gym.console.viewer.query import FAILED, Found, Place, Query, find
from gym.errors import UserError
from gym.wire.metrics import ROLLOUT, TASK

FAILURES = "_failures.jsonl"
UNPACK = {".gz": "gunzip -k", ".zst": "zstd -d", ".zstd": "zstd -d"}
_MAX_TEXT = 20_000  # characters shown of a line that cannot be read


class NoSuchRollout(NotThere):
    """A place that no longer is, or never was."""


class RolloutFiles:
    """May be asked from several threads."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.names = TextNumbers()
        self.files: list[LineFile] = []
        self.generation = 0
        self._lock = threading.Lock()
        self._found = functools.lru_cache(maxsize=4)(self._find)
        for path in paths:
            self._add(path)

    def _add(self, path: Path) -> None:
        _check(path)
        beside = OutputPaths.beside(path).failures
        wanted = [path] if path.name.endswith(FAILURES) else [path, beside]
        known = {file.path for file in self.files}
        self.files += [
            LineFile(one, self.names, failed=one.name.endswith(FAILURES)) for one in wanted if one not in known
        ]

    def refresh(self) -> None:
        with self._lock:
            changed = [file.refresh() for file in self.files]
            self.generation += any(changed)

    def find(self, query: Query) -> Found:
        with self._lock:
            return self._found(self.generation, query)

    def _find(self, _generation: int, query: Query) -> Found:
        return find(self.files, self.names.texts, query)

    def summary(self) -> dict[str, Any]:
        """The head of the page."""
        with self._lock:
            tallies = self._tallies()
            kinds: dict[str, int] = {}
            for (_, kind), tally in tallies.items():
                if kind:
                    kinds[kind] = kinds.get(kind, 0) + tally.count
            malformed = kinds.pop(MALFORMED, 0)
            rewards = [reward for file in self.files for reward in (_low(file), _high(file)) if reward is not None]
            return {
                "generation": self.generation,
                "files": [_file_view(file) for file in self.files],
                "agents": _agent_views(tallies),
                "count": sum(tally.count for (_, kind), tally in tallies.items() if not kind),
                "kinds": dict(sorted(kinds.items(), key=lambda one: -one[1])),
                "malformed": malformed,
                "range": [min(rewards), max(rewards)] if rewards else None,
                "notices": [_torn(file) for file in self.files if file.torn],
            }

    def _tallies(self) -> dict[tuple[str, str], RewardSum]:
        """(agent, kind) -> how many, and their rewards."""
        texts = self.names.texts
        tallies: dict[tuple[int, int], RewardSum] = {}
        for file in self.files:
            for agent, kind, reward in zip(file.agents, file.kinds, file.rewards, strict=True):
                tally = tallies.get((agent, kind))
                if tally is None:
                    tally = tallies[agent, kind] = RewardSum()
                tally.add(reward)
        return {(texts[agent], texts[kind]): tally for (agent, kind), tally in tallies.items()}

    def view(self, place: Place) -> dict[str, Any]:
        """A line of the list."""
        file, index = self._at(place)
        facts = file.fact(index)
        row, _ = parse_line(file.read(index))
        return {
            "id": f"{place[0]}/{index}",
            "file": place[0],
            "line": file.numbers[index],
            "title": read_title(row) if row is not None else "",
            **_facts_view(facts),
        }

    def line(self, place: Place) -> bytes:
        file, index = self._at(place)
        return file.read(index).strip()

    def problem(self, place: Place) -> dict[str, Any]:
        """A malformed line: where it is, what is wrong with it, how it begins."""
        file, index = self._at(place)
        raw = file.read(index).strip()
        _, reason = parse_line(raw)
        text = raw[: _MAX_TEXT * 4].decode("utf-8", "replace")[:_MAX_TEXT]
        return {"where": f"{file.path}:{file.numbers[index]}", "reason": reason, "bytes": len(raw), "text": text}

    def asked(self, place: Place) -> bytes:
        """The row that a failure was about: its line of the materialized inputs, b"" where there is none."""
        file, index = self._at(place)
        facts = file.fact(index)
        stem = file.path.name.removesuffix(FAILURES)
        inputs = OutputPaths.beside(file.path.with_name(f"{stem}.jsonl")).materialized
        return _find_row(inputs, facts) if facts.task >= 0 and inputs.is_file() else b""

    def is_malformed(self, place: Place) -> bool:
        file, index = self._at(place)
        return file.fact(index).kind == MALFORMED

    def _at(self, place: Place) -> tuple[LineFile, int]:
        number, index = place
        if not (number < len(self.files) and index < len(self.files[number])):
            raise NoSuchRollout(f"no rollout {number}/{index}: its file has changed; reload the page")
        return self.files[number], index


class RewardSum:
    def __init__(self) -> None:
        self.count = self.rewarded = 0
        self.total = 0.0

    def add(self, reward: float) -> None:
        self.count += 1
        if not math.isnan(reward):
            self.rewarded += 1
            self.total += reward


def _check(path: Path) -> None:
    if path.suffix in UNPACK:
        raise UserError(f"{path} is packed, and a page jumps to and fro in its file.", f"{UNPACK[path.suffix]} {path}")
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise UserError(f"{path} {what}.", "Give the file that `gym rollouts -o FILE.jsonl` wrote.")


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
        "reward": None if math.isnan(facts.reward) else facts.reward,
        "task": facts.task if facts.task >= 0 else None,
        "repeat": facts.repeat if facts.repeat >= 0 else None,
        "seconds": None if math.isnan(facts.seconds) else round(facts.seconds, 4),
        "tokens": facts.tokens if facts.tokens >= 0 else None,
    }


def _file_view(file: LineFile) -> dict[str, Any]:
    return {"name": str(file.path), "lines": len(file), "bytes": file.size, "failures": file.failed}


def _torn(file: LineFile) -> str:
    where = f"{file.path}:{(file.numbers[-1] if file.numbers else 0) + 1}"
    return f"{where}: the last line is unfinished ({file.torn} bytes): still being written, or torn by a crash"


def _low(file: LineFile) -> float | None:
    return min((reward for reward in file.rewards if not math.isnan(reward)), default=None)


def _high(file: LineFile) -> float | None:
    return max((reward for reward in file.rewards if not math.isnan(reward)), default=None)


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
