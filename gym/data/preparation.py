"""Data sets of servers as files to train or evaluate from: found, checked, measured, compared and put together.

Nothing invalid is written, and nothing at all before everything stands.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

from gym.config import Stack
from gym.data.blending import check_shares, name_of_share
from gym.data.collate import collate
from gym.data.data_sets import Listed, Split
from gym.data.measure import Measured, Same, Survey, stamp_of
from gym.data.metrics_file import metrics_of
from gym.data.metrics_writing import MetricsFiles
from gym.data.row_rules import RowRules
from gym.data.row_servers import agent_names
from gym.data.scope import SPLITS, Fetch, Mode, Placed, describe, find_scope, place, refuse_missing
from gym.data.token_counts import ESTIMATE, open_tokenizer
from gym.data.whole_files import WholeFiles
from gym.errors import UserError

Check = Callable[[Sequence[Placed]], None]  # raises where a server could not read a row
Say = Callable[[str], None]
_LEAKS_SHOWN = 10


@dataclass(frozen=True)
class PrepareOptions:
    """`seed`: shuffled when given. `shares`: of train (or example) rows, by instance or data set."""

    output: Path
    mode: Mode
    overwrite_conflicts: bool = False
    seed: int | None = None
    shares: Mapping[str, Fraction] = field(default_factory=dict)
    dedup: Same = ""
    allow_leakage: bool = False
    tokenizer: str = ESTIMATE


@dataclass(frozen=True)
class PreparedSplit:
    split: Split
    path: Path
    rows: int
    metrics: dict[str, Any]
    taken: dict[str, int]  # by name of the blend


@dataclass(frozen=True)
class PreparedData:
    splits: tuple[PreparedSplit, ...]
    metrics_files: tuple[Path, ...]
    dropped: int  # rows that were the same as an earlier one


def prepare(
    stack: Stack,
    options: PrepareOptions,
    roots: Sequence[Path],
    *,
    fetch: Fetch | None = None,
    check: Check | None = None,
    say: Say = lambda _: None,
) -> PreparedData:
    """`fetch` brings what is missing; without it that is an error. `check` reads rows with their servers' models."""
    if options.output.exists() and not options.output.is_dir():
        raise UserError(f"{options.output} is a file", "name a folder: -o DIR")
    scope = find_scope(stack, options.mode)
    check_shares(options.shares, scope)
    tokenizer = open_tokenizer(options.tokenizer)
    placed = find_rows(stack, scope, options.mode, roots, fetch, say)
    placed = tuple(one for one in placed if not options.shares or name_of_share(one.listed, options.shares))
    refuse_overwriting(placed, options)
    if check is not None:
        check(placed)
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".prepare-", dir=options.output) as scratch:
        survey = Survey(tokenizer, RowRules(agent_names(stack)), Path(scratch), dedup=options.dedup)
        for one in placed:
            say(f"measuring {one.path}")
            survey.measure(one)
        survey.refuse_findings()
        _refuse_leaks(survey, options, say)
        dropped = survey.drop_twins()
        with WholeFiles() as files:
            return _write(survey.measured, dropped, options, files, Path(scratch), say)


def find_rows(
    stack: Stack, scope: Iterable[Listed], mode: Mode, roots: Sequence[Path], fetch: Fetch | None, say: Say
) -> tuple[Placed, ...]:
    """All data sets in scope with their rows; what is missing is fetched, or an error."""
    found = [(one, one.file(roots)) for one in scope]
    for one, path in found:
        say(f"found: {describe(one)}: {path}" if path else f"missing: {describe(one)}: {one.data.jsonl_fpath}")
    refuse_missing([one for one, path in found if path is None], mode, download=fetch is not None)
    return tuple(place(stack, one, path or _bring(fetch, one)) for one, path in found)


def _bring(fetch: Fetch | None, one: Listed) -> Path:
    assert fetch is not None
    return fetch(one)


def refuse_overwriting(placed: Iterable[Placed], options: PrepareOptions) -> None:
    """No output takes the place of its own input."""
    outputs = {(options.output / f"{split}.jsonl").resolve() for split in SPLITS[options.mode]}
    for one in placed:
        if one.path.resolve() in outputs:
            raise UserError(
                f"{one.path} is where the rows of {describe(one.listed)} are, and would be written over",
                "name another folder: -o DIR",
            )


def _refuse_leaks(survey: Survey, options: PrepareOptions, say: Say) -> None:
    leaks = survey.find_leaks()
    shown = [f"{train} asks the same as {validation}" for train, validation in islice(leaks, _LEAKS_SHOWN)]
    if not shown:
        return
    more = sum(1 for _ in leaks)
    text = "\n".join([*shown, *([f"… and {more:,} more"] if more else [])])
    if not options.allow_leakage:
        raise UserError(
            f"{text}\nThe validation set has {len(shown) + more:,} prompts that are trained on.",
            "take them out of one of the two, or keep them: --allow-leakage",
        )
    say(text)


def _write(
    measured: Sequence[Measured], dropped: int, options: PrepareOptions, files: WholeFiles, scratch: Path, say: Say
) -> PreparedData:
    metrics_files = MetricsFiles(files, overwrite=options.overwrite_conflicts, say=say)
    for one in measured:
        metrics_files.put_beside(one.placed, one.statistics)
    metrics_files.refuse_conflicts()
    splits = []
    for split in SPLITS[options.mode]:
        some = [one for one in measured if one.placed.listed.data.type == split]
        if not some:
            continue
        path = options.output / f"{split}.jsonl"
        say(f"writing {path}")
        statistics, taken = collate(some, options.shares, options.seed, files.open(path), scratch)
        metrics = metrics_of(some[0].placed.listed.data, statistics)
        metrics_files.put(options.output / f"{split}_metrics.json", metrics)
        splits.append(PreparedSplit(split, path, statistics.examples, metrics, taken))
    metrics_files.refuse_conflicts()
    for one in measured:
        if stamp_of(one.placed.path) != one.stamp:
            raise UserError(f"{one.placed.path} was written while it was prepared", "wait until it is whole")
    return PreparedData(tuple(splits), metrics_files.written, dropped)
