"""Joins the files of the collectors of one queue. A collector that died may have left a torn line, and duplicates.

A rollout that two of them did counts once: the first in the order of the collectors' names counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO

import orjson

from gym.collect.keys import DoneKeys, parse_key
from gym.collect.run_replies import STAMP
from gym.collect.sidecar import OutputPaths
from gym.collect.study.merged import Merged, Shard, check_none_missing, copy_lines, count_missing, open_results
from gym.collect.study.recorded import Inputs, Recorded, mix, open_inputs, parse_rollout, read_places
from gym.errors import UserError


def write_parts(paths: OutputPaths, parts: Sequence[Shard], merged: Merged, *, partial: bool) -> None:
    merged.what = "collectors"
    source = next((part.paths.materialized for part in parts if part.paths.materialized.is_file()), None)
    source = source or parts[0].paths.materialized
    with ExitStack() as stack, open_inputs(source) as asked:
        rollouts, failures, inputs = (stack.enter_context(one) for one in open_results(paths))
        copy_lines(source, inputs)
        done, seen = DoneKeys(), DoneKeys()
        for part in parts:
            _join(part, asked, rollouts, done, seen, merged)
        count_missing(asked, seen, merged)
        for part in parts:
            merged.failures += _copy_failures(part, failures, done)
        if not partial:
            check_none_missing(merged)


def _join(part: Shard, asked: Inputs, rollouts: BinaryIO, done: DoneKeys, seen: DoneKeys, merged: Merged) -> None:
    for rollout in _whole_lines(part):
        if rollout.digest is None:
            raise UserError(f"{rollout.where}: the line holds no key; only what gym rollouts wrote can be merged")
        asked.need(rollout)
        if done.add(*parse_key(rollout.fields[STAMP]["key"])):
            seen.add(mix(rollout.task), rollout.repeat)
            rollouts.write(rollout.raw)
            merged.rollouts += 1
        else:
            merged.doubled += 1


def _whole_lines(part: Shard) -> Iterator[Recorded]:
    path = part.paths.rollouts
    for number, offset, line in read_places(path):
        if line.endswith(b"\n"):  # else its collector died in the middle of it, and another did that rollout
            yield parse_rollout(line, f"{path}:{number}", offset)


def _copy_failures(part: Shard, failures: BinaryIO, done: DoneKeys) -> int:
    """Those of rollouts that no collector finished, each once."""
    count = 0
    if not part.paths.failures.is_file():
        return 0
    for _, _, line in read_places(part.paths.failures):
        if line.endswith(b"\n") and done.add(*parse_key(orjson.loads(line)[STAMP]["key"])):
            failures.write(line)
            count += 1
    return count
