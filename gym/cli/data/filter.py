"""`gym data filter`: the rows that are neither too easy nor too hard for the policy whose rollouts are given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import orjson
import typer

from gym.cli import console
from gym.cli.data.common import Files, Output
from gym.cli.data.rollout_scores import Failures, read_scored
from gym.cli.options import AsJson
from gym.collect.keys import row_digest
from gym.collect.study.recorded import find_rollouts
from gym.collect.task_reader import mask_row, secret_of
from gym.data.line_source import expand_inputs, read_lines
from gym.data.rates import Filtered, filter_rows, parse_range, sum_rates
from gym.data.whole_files import refuse_inputs, refuse_other_form
from gym.errors import UserError

By = Annotated[list[Path], typer.Option("--by", metavar="X.jsonl", help="What gym rollouts -o wrote; may be repeated.")]
Range = Annotated[str, typer.Option("--pass-rate", metavar="LOW..HIGH", help="Of a row's mean reward, ends included.")]
Missing = Annotated[
    Literal["drop", "keep"], typer.Option("--missing", help="What to do with rows that have no rollout.")
]


def command(
    files: Files,
    by: By,
    output: Output,
    pass_rate: Range = "0.1..0.9",
    missing: Missing = "drop",
    as_json: AsJson = False,
) -> int:
    """Keep the rows whose pass rate lies between: gym data filter rows.jsonl --by X.jsonl -o kept.jsonl."""
    between = parse_range(pass_rate)
    inputs, paths = expand_inputs(files), [find_rollouts(one).rollouts for one in by]
    refuse_other_form(output)
    refuse_inputs([output], [*inputs, *map(str, paths)])
    failures = Failures()
    rates = sum_rates(one for path in paths for one in read_scored(path, failures))
    if not rates.rollouts:
        raise UserError(f"{', '.join(map(str, paths))}: no rollout with a reward", f"{failures.count:,} failures")
    found = filter_rows(read_lines(inputs), rates, between, output, digest=digest_line, keep_without=missing == "keep")
    if as_json:
        console.show_json({**found.counts, "kept": found.kept, "rollouts": rates.rollouts, "failures": failures.count})
    else:
        _show(found, rates.rollouts, failures.count, output, missing)
    return int(not found.kept)


def digest_line(raw: bytes) -> int:
    """As the collector names the row: without a key that the row brings along."""
    try:
        return row_digest(mask_row(raw, secret_of(orjson.loads(raw))) if b"policy_" in raw else raw)
    except ValueError:  # no collector takes it
        return row_digest(raw)


def _show(found: Filtered, rollouts: int, failures: int, output: Path, missing: str) -> None:
    rows = [(name, f"{found.counts[name]:,}") for name in ("between", "too easy", "too hard", "without rollouts")]
    console.show(console.make_table(("PASS RATE", "ROWS"), rows, right=("ROWS",)))
    console.show(f"{rollouts:,} rollouts" + (f"; {failures:,} failures, which are ignored" if failures else ""))
    if found.first_without:
        became = "dropped (--missing keep keeps them)" if missing == "drop" else "kept"
        first = found.first_without
        console.note(f"rows without rollouts, the first at {first}, were {became}", style="yellow")
    console.show(f"{found.kept:,} rows in {output}" if found.kept else f"no row is left, so {output} was not written")
