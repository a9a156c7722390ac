"""What `gym rollouts` does once its words are read: apart from them, so that its help loads no collector."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

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
from gym.collect.queue.queue_options import QueueOptions
from gym.data.whole_files import refuse_other_form

__all__ = [
    "CollectOptions",
    "check_loggers",
    "find_rows",
    "parse_params",
    "parse_shard",
    "read_token",
    "refuse_other_form",
    "router_of",
]


def read_queue(queue: str, name: str, lease: float) -> QueueOptions | None:
    return read_queue_options(queue, name, lease, os.environ)


def collect(options: CollectOptions, stack: str, log_to: Sequence[str], *, bad_rows: bool, as_json: bool) -> int:
    """`stack` names the one whose servers are looked after; "" where it is one of another folder."""
    with follow_progress(bad_rows=bad_rows, as_json=as_json) as on_event:
        look = partial(unhealthy_in, stack) if stack else none_unhealthy
        summary = _collect(options, with_unhealthy(on_event, look), log_to)
    if as_json:
        console.show_json(summary.to_dict())
    else:
        show_summary(summary, fate_of(stack) if stack and summary.exit_code == EXIT_STOPPED else "")
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
