"""`gym data prepare`: the data sets of servers as files to train or evaluate from, with their statistics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from gym.cli import console
from gym.cli.data.data_arguments import row_servers
from gym.cli.data.download import note_rows
from gym.cli.options import AsJson, ConfigFiles, Items
from gym.cli.stack_request import load_named
from gym.config import StackConfig, search_roots
from gym.data.blending import parse_shares
from gym.data.data_sets import Listed
from gym.data.findings import Fold
from gym.data.measure import refuse_findings
from gym.data.preparation import Check, PreparedData, PreparedSplit, PrepareOptions, prepare
from gym.data.registries import choose_place, fetch
from gym.data.registries.address import RegistryName
from gym.data.row_rules import LineRules
from gym.data.row_servers import agent_names
from gym.data.scope import Fetch, Mode, Placed
from gym.data.statistics import TOKENS
from gym.data.token_counts import ESTIMATE
from gym.data.validation import Input, Validator
from gym.data.whole_files import refuse_file_name

Output = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where train.jsonl and the others go.")]
ModeName = Annotated[Mode, typer.Option("--mode", help="Examples alone, or train, validation and benchmark.")]
Download = Annotated[bool, typer.Option("--download", help="Fetch what is missing.")]
Prefer = Annotated[RegistryName, typer.Option("--source", help="Where from, for what two registries have.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite-metrics-conflicts", help="Overwrite earlier metrics that differ.")
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Shuffle; one seed, one order.")]
Blend = Annotated[
    str, typer.Option("--blend", metavar="A=2,B=1", help="Shares of instances or data sets in the train rows.")
]
Dedup = Annotated[
    Literal["params", "row"] | None,
    typer.Option("--dedup", help="Of equal params, or equal rows, keep the first."),
]
Leakage = Annotated[bool, typer.Option("--allow-leakage", help="Keep prompts that are in train and in validation.")]
TokenizerName = Annotated[
    str, typer.Option("--tokenizer", metavar="NAME|FILE", help="A tokenizer.json or a tiktoken encoding; else a guess.")
]
Contract = Annotated[bool, typer.Option("--contract", help="Check rows against the contract alone.")]


def command(
    output: Output,
    mode: ModeName,
    items: Items = None,
    files: ConfigFiles = None,
    download: Download = False,
    source: Prefer = "huggingface",
    overwrite: Overwrite = False,
    seed: Seed = None,
    blend: Blend = "",
    dedup: Dedup = None,
    allow_leakage: Leakage = False,
    tokenizer: TokenizerName = ESTIMATE,
    contract: Contract = False,
    as_json: AsJson = False,
) -> int:
    """Check, measure and put together the data sets that servers list."""
    refuse_file_name(output)
    stack = load_named(items, files=files)
    shares = parse_shares(blend) if blend else {}
    options = PrepareOptions(output, mode, overwrite, seed, shares, dedup or "", allow_leakage, tokenizer)
    check = None if contract else _checked_by_servers(stack)
    bring = _fetched(stack, source) if download else None
    roots = search_roots(Path.cwd(), os.environ)
    done = prepare(stack, options, roots, fetch=bring, check=check, say=console.note)
    if as_json:
        console.show_json(_summary(done))
        return 0
    if done.dropped:
        console.note(f"{done.dropped:,} rows are the same as an earlier one, and left out")
    columns = ("TYPE", "ROWS", "TOKENS", "FILE", "OF")
    console.show(console.make_table(columns, _lines(done), right=("ROWS", "TOKENS")))
    return 0


def _checked_by_servers(stack: StackConfig) -> Check:
    """Checks rows with their servers' own models, on all cores."""

    def check(placed: Sequence[Placed]) -> None:
        servers, fold = row_servers(stack), Fold()
        inputs = dict.fromkeys(Input(str(one.path), one.agent) for one in placed)
        for result in Validator(LineRules(agent_names(stack)), servers.find, len(os.sched_getaffinity(0))).check(
            inputs
        ):
            fold.merge(result.found, result.found.left_out)
        for note in dict.fromkeys(servers.notes):
            console.note(note, style="yellow")
        refuse_findings(fold)

    return check


def _fetched(stack: StackConfig, prefer: RegistryName) -> Fetch:
    def bring(listed: Listed) -> Path:
        place = choose_place(listed, search_roots(Path.cwd(), os.environ), Path.cwd())
        console.note(f"fetching {listed.data.name} to {place}")
        note_rows(fetch(listed, place, stack.settings, prefer))
        return place

    return bring


def _lines(done: PreparedData) -> list[tuple[str, ...]]:
    return [
        (one.split, f"{one.rows:,}", f"{one.metrics[TOKENS]['Average']:,.0f} on average", str(one.path), _shares(one))
        for one in done.splits
    ]


def _shares(one: PreparedSplit) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in one.taken.items() if name)


def _summary(done: PreparedData) -> dict[str, object]:
    splits = [
        {"type": one.split, "rows": one.rows, "file": str(one.path), "taken": one.taken, "metrics": one.metrics}
        for one in done.splits
    ]
    return {"splits": splits, "metrics_files": [str(path) for path in done.metrics_files], "dropped": done.dropped}
