"""What `gym rollouts` does once its words are read: apart from them, so that its help loads no collector."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gym.cli import console
from gym.cli.caller_token import read_token
from gym.cli.progress import follow_progress, show_summary
from gym.cli.queue_address import read_queue_options
from gym.cli.rollout_inputs import find_rows, parse_params, parse_shard
from gym.cli.stack_session import router_of
from gym.cli.unhealthy import fate_of, none_unhealthy, unhealthy_in, with_unhealthy
from gym.collect import CollectOptions, OnEvent, Summary, run_collection
from gym.collect.events import EXIT_STOPPED
from gym.collect.log_to import RunLogs, check_loggers
from gym.data.whole_files import refuse_other_form


class ChosenRows(NamedTuple):
    """Which rows, as they were typed."""

    named: list[str]
    files: list[str]
    agent: str
    split: str
    configs: list[Path] | None
    limit: int | None
    shard: str


class ChosenStack(NamedTuple):
    """Whose agents, as it was typed: those of `name`, or of the stack of another folder at `url`."""

    url: str
    token_file: Path | None
    name: str

    @property
    def watched(self) -> str:
        """The stack whose servers are looked after; "" where it is one of another folder."""
        return "" if self.url else self.name


class ChosenQueue(NamedTuple):
    """What shares the rows among collectors, as it was typed; nothing where the address is empty."""

    address: str
    name: str
    lease: float


def collect(
    rows: ChosenRows,
    stack: ChosenStack,
    queue: ChosenQueue,
    *,
    output: Path,
    params: str,
    log_to: Sequence[str],
    as_json: bool,
    **others: Any,
) -> int:
    """The command's exit code. `others` are options of the collection that need no reading."""
    refuse_other_form(output)
    check_loggers(log_to)
    inputs, agent = find_rows(rows.named, rows.files, rows.agent, rows.split, rows.configs)
    options = CollectOptions(
        stack_url=stack.url or router_of(stack.name),
        inputs=inputs,
        output=output,
        agent=agent,
        limit=rows.limit,
        shard=parse_shard(rows.shard),
        params=parse_params(params),
        token=read_token(stack.token_file),
        queue=read_queue_options(*queue, os.environ),
        **others,
    )
    return _collect_watched(options, stack.watched, log_to, as_json=as_json)


def _collect_watched(options: CollectOptions, watched: str, log_to: Sequence[str], *, as_json: bool) -> int:
    with follow_progress(bad_rows=options.skip_bad_rows, as_json=as_json) as on_event:
        look = partial(unhealthy_in, watched) if watched else none_unhealthy
        summary = _collect(options, with_unhealthy(on_event, look), log_to)
    if as_json:
        console.show_json(summary.to_dict())
    else:
        show_summary(summary, fate_of(watched) if watched and summary.exit_code == EXIT_STOPPED else "")
    return summary.exit_code


def _collect(options: CollectOptions, on_event: OnEvent, log_to: Sequence[str]) -> Summary:
    shown = options.identity("")
    config = {name: value for name, value in shown.items() if name not in ("schema", "data")}
    logs = RunLogs(log_to, options.output, config, on_event)
    summary = None
    try:
        summary = run_collection(options, logs.on_event)
    finally:
        logs.close(summary)
    return summary
