"""What every merge has: the collections that go in, what came out, and the refusal when some of it is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from gym.collect.keys import DoneKeys
from gym.collect.result_file import result_file
from gym.collect.sidecar import OutputPaths
from gym.collect.study.recorded import Inputs, mix, read_places
from gym.errors import UserError

MAX_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Shard:
    paths: OutputPaths
    number: int
    of: int
    run: dict[str, Any]  # its sidecar

    @property
    def collector(self) -> str:
        """Its name in the queue from which it took its rows; "" for a shard."""
        return str((self.run.get("queue") or {}).get("collector", ""))

    @property
    def identity(self) -> dict[str, Any]:
        return {name: value for name, value in self.run["identity"].items() if name != "shard"}


@dataclass(slots=True)
class Merged:
    output: Path
    shards: int = 0
    what: str = "shards"
    rollouts: int = 0
    failures: int = 0
    missing: int = 0  # asked for, but in no shard
    doubled: int = 0  # by two collectors of a queue; one is left out
    missing_shards: list[int] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)  # of what is missing


def open_results(paths: OutputPaths) -> list[AbstractContextManager[BinaryIO]]:
    return [result_file(path, replace=True) for path in (paths.rollouts, paths.failures, paths.materialized)]


def check_none_missing(merged: Merged) -> None:
    if merged.missing:
        failed = f" ({merged.failures:,} of them failed)" if merged.failures else ""
        raise UserError(
            f"{merged.missing:,} rollouts are missing{failed}, such as\n    " + "\n    ".join(merged.examples),
            "run their gym rollouts to collect what is missing, or add --partial",
        )


def count_missing(asked: Inputs, seen: DoneKeys, merged: Merged) -> None:
    for example in _not_in(asked, seen):
        merged.missing += 1
        if len(merged.examples) < MAX_SHOWN:
            merged.examples.append(example)


def _not_in(asked: Inputs, seen: DoneKeys) -> Iterator[str]:
    for number, (task, repeat) in asked.pairs():
        if not seen.has(mix(task), repeat):
            yield f"{asked.path}:{number} (task {task}, repeat {repeat})"


def copy_lines(source: Path, target: BinaryIO) -> None:
    if source.is_file():
        with source.open("rb") as stream:
            shutil.copyfileobj(stream, target, 1 << 20)


def count_rollouts(path: Path) -> int:
    return sum(1 for _ in read_places(path)) if path.is_file() else 0
