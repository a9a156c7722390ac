"""Joins the shards of one collection, or the parts of a queue, into one whose files are as if it had never been split.

Refuses shards of different runs, shards that are missing or there twice, and such rollouts. A merge that was killed is
restarted by the same command.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from gym.collect.aggregates import aggregate_agents, read_output
from gym.collect.keys import DoneKeys, parse_key
from gym.collect.result_file import write_result
from gym.collect.run_replies import STAMP
from gym.collect.sidecar import OutputPaths
from gym.collect.study.merged import (
    Merged,
    Shard,
    check_none_missing,
    copy_lines,
    count_missing,
    count_rollouts,
    open_results,
)
from gym.collect.study.queue_parts import write_parts
from gym.collect.study.recorded import (
    Inputs,
    find_rollouts,
    is_whole,
    mix,
    open_inputs,
    read_rollouts,
)
from gym.collect.study.verifiers import run_in_loop
from gym.errors import GymError, UserError

UNFINISHED = "unfinished_merge"  # the field of the sidecar while a merge is under way


def merge_shards(output: Path, given: Sequence[Path], *, partial: bool = False) -> Merged:
    shards = sorted((read_shard(find_rollouts(path)) for path in given), key=lambda one: (one.number, one.collector))
    check_same_run(shards)
    merged = Merged(output, shards=len(shards), missing_shards=_missing_shards(shards))
    if not partial:
        _check_whole(shards, merged)
    paths = OutputPaths.beside(output)
    with ExitStack() as locks:
        for shard in shards:
            locks.enter_context(_lock_shard(shard.paths.rollouts))
        with _under_way(paths):
            write = write_parts if shards[0].collector else _write
            write(paths, shards, merged, partial=partial)
    agents = read_output(paths.rollouts, lambda: None)
    entries = run_in_loop(lambda: aggregate_agents(agents, _no_metrics))
    write_result(paths.metrics, orjson.dumps(entries, option=orjson.OPT_INDENT_2))
    # Last of all: a merge that did not end has no such description, so no command reads it as a collection.
    identity = {**shards[0].run["identity"], "shard": "1/1"}
    run = {**shards[0].run, "identity": identity, "stacks": _stacks(shards)}
    run.pop("queue", None)
    write_result(paths.run, orjson.dumps(run, option=orjson.OPT_INDENT_2))
    return merged


def _check_whole(shards: Sequence[Shard], merged: Merged) -> None:
    if merged.missing_shards:
        names = ", ".join(f"{number}/{shards[0].of}" for number in merged.missing_shards)
        raise UserError(f"of {shards[0].of} shards these are missing: {names}", "name them too, or add --partial")
    for shard in shards:
        if not (shard.collector or is_whole(shard.paths)):
            what = f"the collection of {shard.paths.rollouts} has not ended"
            raise UserError(what, "run its gym rollouts to the end, or add --partial")


@contextmanager
def _under_way(paths: OutputPaths) -> Iterator[None]:
    """Says that what lies there is a merge that has not ended: the next one may write over it."""
    if _is_unfinished(paths):
        yield
        return
    for path in (paths.run, paths.rollouts, paths.failures, paths.materialized):
        if path.exists():
            raise UserError(f"{path} exists already", "choose another name, or remove it")
    write_result(paths.run, orjson.dumps({UNFINISHED: True}))
    try:
        yield
    except GymError:  # it has written nothing yet
        paths.run.unlink()
        raise


def _is_unfinished(paths: OutputPaths) -> bool:
    try:
        return bool(orjson.loads(paths.run.read_bytes()).get(UNFINISHED))
    except (OSError, ValueError, AttributeError):
        return False


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
        if bool(shard.collector) != bool(first.collector):
            differ.append("--queue (one of them only)")
        if differ:
            both = f"{first.paths.rollouts} and {shard.paths.rollouts}"
            raise UserError(f"{both} are of different collections: {', '.join(differ)}", "merge shards of one run")
    names = [shard.collector or str(shard.number) for shard in shards]
    for shard in shards:
        if shard.collector and names.count(shard.collector) > 1:
            what = f"{shard.paths.rollouts}: collector {shard.collector} is named twice, or its files were copied"
            raise UserError(what, "name each of its files once")
        if not shard.collector and names.count(str(shard.number)) > 1:
            raise _named_twice([one for one in shards if one.number == shard.number])


def _named_twice(shards: Sequence[Shard]) -> UserError:
    number, files = f"{shards[0].number}/{shards[0].of}", [str(shard.paths.rollouts) for shard in shards]
    if len(set(files)) == 1:
        return UserError(f"{files[0]}: shard {number} is named twice", "name it once")
    if shards[0].of == 1:
        what = f"{files[0]} and {files[1]} are whole collections, and no shards of one"
        return UserError(what, "gym compare them; shards come from gym rollouts --shard")
    return UserError(f"{files[0]} and {files[1]} are both shard {number}", "name one of them")


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
    with ExitStack() as stack:
        rollouts, failures, inputs = (stack.enter_context(one) for one in open_results(paths))
        done = DoneKeys()
        for shard in shards:
            copy_lines(shard.paths.failures, failures)
            copy_lines(shard.paths.materialized, inputs)
            with open_inputs(shard.paths.materialized) as asked:
                _join(shard, asked, rollouts, done, merged)
        merged.failures = sum(count_rollouts(shard.paths.failures) for shard in shards)
        if not partial:
            check_none_missing(merged)


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
    count_missing(asked, seen, merged)


async def _no_metrics(agent: str, body: bytes) -> dict[str, Any] | None:
    """No agent is asked: a merge needs no stack."""
    return None
