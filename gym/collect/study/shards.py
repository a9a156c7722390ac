"""Joins the shards of one collection into one whose files are as if it had never been split.

Refuses shards of different runs, shards that are missing or there twice, and such rollouts.
"""

from __future__ import annotations

import fcntl
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from gym.collect.aggregates import aggregate_agents, read_output
from gym.collect.keys import DoneKeys, parse_key
from gym.collect.result_file import result_file, write_result
from gym.collect.run_replies import STAMP
from gym.collect.sidecar import OutputPaths
from gym.collect.study.recorded import (
    Inputs,
    find_rollouts,
    is_whole,
    mix,
    open_inputs,
    read_places,
    read_rollouts,
)
from gym.collect.study.verifiers import run_in_loop
from gym.errors import UserError

MAX_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Shard:
    paths: OutputPaths
    number: int
    of: int
    run: dict[str, Any]  # its sidecar

    @property
    def identity(self) -> dict[str, Any]:
        return {name: value for name, value in self.run["identity"].items() if name != "shard"}


@dataclass(slots=True)
class Merged:
    output: Path
    shards: int = 0
    rollouts: int = 0
    failures: int = 0
    missing: int = 0  # asked for, but in no shard
    missing_shards: list[int] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)  # of what is missing


def merge_shards(output: Path, given: Sequence[Path], *, partial: bool = False) -> Merged:
    shards = sorted((read_shard(find_rollouts(path)) for path in given), key=lambda shard: shard.number)
    check_same_run(shards)
    merged = Merged(output, shards=len(shards), missing_shards=_missing_shards(shards))
    if merged.missing_shards and not partial:
        names = ", ".join(f"{number}/{shards[0].of}" for number in merged.missing_shards)
        raise UserError(f"of {shards[0].of} shards these are missing: {names}", "name them too, or add --partial")
    for shard in shards:
        if not (partial or is_whole(shard.paths)):
            what = f"the collection of {shard.paths.rollouts} has not ended"
            raise UserError(what, "run its gym rollouts to the end, or add --partial")
    paths = OutputPaths.beside(output)
    with ExitStack() as locks:
        for shard in shards:
            locks.enter_context(_lock_shard(shard.paths.rollouts))
        _write(paths, shards, merged, partial=partial)
    # After the rollouts are there: an unfinished merge has no sidecar, so no command reads it as a collection.
    identity = {**shards[0].run["identity"], "shard": "1/1"}
    run = {**shards[0].run, "identity": identity, "stacks": _stacks(shards)}
    write_result(paths.run, orjson.dumps(run, option=orjson.OPT_INDENT_2))
    agents = read_output(paths.rollouts, lambda: None)
    entries = run_in_loop(lambda: aggregate_agents(agents, _no_metrics))
    write_result(paths.metrics, orjson.dumps(entries, option=orjson.OPT_INDENT_2))
    return merged


def read_shard(paths: OutputPaths) -> Shard:
    try:
        run = orjson.loads(paths.run.read_bytes())
        found = re.fullmatch(r"(\d+)/(\d+)", run["identity"]["shard"])
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    if found is None:
        raise UserError(
            f"{paths.run} does not say which shard {paths.rollouts} is",
            "merge what gym rollouts --shard wrote, each X.jsonl with the files beside it",
        )
    return Shard(paths, int(found[1]), int(found[2]), run)


def check_same_run(shards: Sequence[Shard]) -> None:
    first = shards[0]
    for shard in shards[1:]:
        names = sorted(first.identity.keys() | shard.identity.keys())
        differ = [name for name in names if first.identity.get(name) != shard.identity.get(name)]
        if shard.of != first.of:
            differ.append(f"the number of shards ({first.of} and {shard.of})")
        if differ:
            both = f"{first.paths.rollouts} and {shard.paths.rollouts}"
            raise UserError(f"{both} are of different collections: {', '.join(differ)}", "merge shards of one run")
    numbers = [shard.number for shard in shards]
    for shard in shards:
        if numbers.count(shard.number) > 1:
            raise UserError(f"{shard.paths.rollouts}: shard {shard.number}/{shard.of} is named twice", "name it once")


def _stacks(shards: Sequence[Shard]) -> list[Any]:
    """Every stack that rollouts come from, once."""
    stacks: list[Any] = []
    for shard in shards:
        known = [one.get("digest") for one in stacks]
        stacks += [one for one in shard.run.get("stacks") or () if one.get("digest") not in known]
    return stacks


def _missing_shards(shards: Sequence[Shard]) -> list[int]:
    there = {shard.number for shard in shards}
    return [number for number in range(1, shards[0].of + 1) if number not in there]


def _lock_shard(path: Path) -> BinaryIO:
    """The shard, locked so that no collector starts to write to it; refused while one does."""
    stream = path.open("rb")
    try:
        fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        stream.close()
        raise UserError(f"a collector still writes to {path}", "wait until it has ended") from None
    return stream


def _write(paths: OutputPaths, shards: Sequence[Shard], merged: Merged, *, partial: bool) -> None:
    if paths.run.exists():
        raise UserError(f"{paths.run} exists already", "choose another name, or remove it")
    with ExitStack() as stack:
        rollouts, failures, inputs = (
            stack.enter_context(result_file(path)) for path in (paths.rollouts, paths.failures, paths.materialized)
        )
        done = DoneKeys()
        for shard in shards:
            _copy(shard.paths.failures, failures)
            _copy(shard.paths.materialized, inputs)
            with open_inputs(shard.paths.materialized) as asked:
                _join(shard, asked, rollouts, done, merged)
        merged.failures = sum(_count(shard.paths.failures) for shard in shards)
        if merged.missing and not partial:
            failed = f" ({merged.failures:,} of them failed)" if merged.failures else ""
            raise UserError(
                f"{merged.missing:,} rollouts are missing{failed}, such as\n    " + "\n    ".join(merged.examples),
                "run their gym rollouts to collect what is missing, or add --partial",
            )


def _join(shard: Shard, asked: Inputs, rollouts: BinaryIO, done: DoneKeys, merged: Merged) -> None:
    seen = DoneKeys()
    for rollout in read_rollouts(shard.paths.rollouts):
        if rollout.digest is None:
            raise UserError(f"{rollout.where}: the line holds no key; only what gym rollouts wrote can be merged")
        digest, repeat = parse_key(rollout.fields[STAMP]["key"])
        if not done.add(digest, repeat):
            raise UserError(f"{rollout.where}: this rollout is there twice", "remove one of the two lines")
        asked.need(rollout)
        seen.add(mix(rollout.task), rollout.repeat)
        rollouts.write(rollout.raw if rollout.raw.endswith(b"\n") else rollout.raw + b"\n")
        merged.rollouts += 1
    for example in _not_in(asked, seen):
        merged.missing += 1
        if len(merged.examples) < MAX_SHOWN:
            merged.examples.append(example)


def _not_in(asked: Inputs, seen: DoneKeys) -> Iterator[str]:
    for number, (task, repeat) in asked.pairs():
        if not seen.has(mix(task), repeat):
            yield f"{asked.path}:{number} (task {task}, repeat {repeat})"


def _copy(source: Path, target: BinaryIO) -> None:
    if source.is_file():
        with source.open("rb") as stream:
            shutil.copyfileobj(stream, target, 1 << 20)


def _count(path: Path) -> int:
    return sum(1 for _ in read_places(path)) if path.is_file() else 0


async def _no_metrics(agent: str, body: bytes) -> dict[str, Any] | None:
    """No agent is asked: a merge needs no stack."""
    return None
