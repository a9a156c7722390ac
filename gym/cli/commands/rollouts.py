"""`gym rollouts`: rows in, verified rollouts out, each exactly once, however often the command is restarted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gym.cli.options import DEFAULT_STACK, StackName, TokenFile, Url

Named = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="INPUT|AGENT", help="JSONL files, globs, - or a server's name (its examples); an agent with --input."
    ),
]
Rows = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="FILE", help="JSONL files, globs or -, where the argument names the agent."),
]
Split = Annotated[
    str, typer.Option("--split", metavar="SPLIT", help="That data set of a server: train, validation, example.")
]
Configs = Annotated[
    list[Path] | None,
    typer.Option("-c", "--config", metavar="FILE", help="With --split: a configuration that lists data sets."),
]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where verified rollouts go (JSONL).")]
Agent = Annotated[str, typer.Option("--agent", metavar="NAME", help="The agent of rows that name none.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N rows.")]
Repeats = Annotated[int, typer.Option("--repeats", metavar="K", min=1, help="Rollouts of each row.")]
Concurrency = Annotated[int, typer.Option("--concurrency", metavar="P", min=1, max=10_000, help="At once.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="For one attempt.")]
Attempts = Annotated[int, typer.Option("--max-attempts", metavar="N", min=1, help="Tries of one rollout.")]
MaxPause = Annotated[float, typer.Option("--max-pause", metavar="SECONDS", help="Give up when paused for longer.")]
Drain = Annotated[float, typer.Option("--drain", metavar="SECONDS", help="To finish what is in flight on Ctrl-C.")]
Params = Annotated[
    str, typer.Option("--params", metavar="JSON", help="Over every row's create params: '{\"temperature\": 1}'.")
]
Tools = Annotated[
    Literal["auto"] | None,
    typer.Option("--tools", metavar="auto", help="Offer a server's tools in rows that list none."),
]
Shard = Annotated[str, typer.Option("--shard", metavar="I/N", help="Only part I of N.")]
Queue = Annotated[
    str,
    typer.Option(
        "--queue", metavar="REDIS", help="Share the rows with other collectors: redis://HOST, ${oc.env:X}, @FILE."
    ),
]
QueueName = Annotated[str, typer.Option("--queue-name", metavar="NAME", help="Which queue of that Redis.")]
Lease = Annotated[
    float,
    typer.Option("--queue-lease", metavar="SECONDS", help="A collector that is silent for longer loses its rollouts."),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Move earlier output aside and start from the first row.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad-rows", help="List malformed rows and go on.")]
Accept = Annotated[bool, typer.Option("--accept-changes", help="Resume although the stack has changed.")]
Routed = Annotated[bool, typer.Option("--through-router", help="Call agents through the router, never directly.")]
LogTo = Annotated[
    list[str] | None,
    typer.Option(
        "--log-to", metavar="TRACKER", help="Metrics and samples to wandb, mlflow or tensorboard; repeatable."
    ),
]
Events = Annotated[bool, typer.Option("--json", help="The summary as JSON, and events as JSON lines on stderr.")]


def command(
    output: Output,
    named: Named = None,
    rows: Rows = None,
    split: Split = "",
    configs: Configs = None,
    agent: Agent = "",
    limit: Limit = None,
    repeats: Repeats = 1,
    concurrency: Concurrency = 64,
    timeout: Timeout = 3600,
    max_attempts: Attempts = 3,
    max_pause: MaxPause = 600,
    drain: Drain = 30,
    params: Params = "{}",
    tools: Tools = None,
    shard: Shard = "1/1",
    queue: Queue = "",
    queue_name: QueueName = "rollouts",
    queue_lease: Lease = 60,
    fresh: Fresh = False,
    skip_bad_rows: SkipBad = False,
    accept_changes: Accept = False,
    through_router: Routed = False,
    log_to: LogTo = None,
    as_json: Events = False,
    url: Url = "",
    token_file: TokenFile = None,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Collect verified rollouts: gym rollouts mcqa -o mcqa.jsonl --repeats 4."""
    from gym.cli import collecting  # noqa: PLC0415  (a collector: 0.3 s of CPU, and the help needs none)

    return collecting.collect(
        collecting.ChosenRows(named or [], rows or [], agent, split, configs, limit, shard),
        collecting.ChosenStack(url, token_file, stack),
        collecting.ChosenQueue(queue, queue_name, queue_lease),
        output=output,
        repeats=repeats,
        concurrency=concurrency,
        timeout=timeout,
        max_attempts=max_attempts,
        max_pause=max_pause,
        drain=drain,
        params=params,
        fill_tools=tools == "auto",
        fresh=fresh,
        skip_bad_rows=skip_bad_rows,
        accept_changes=accept_changes,
        through_router=through_router,
        log_to=log_to or [],
        as_json=as_json,
    )
