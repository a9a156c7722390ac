"""`gym chaos`: breaks the parts of a running stack while it collects, and says whether a rollout suffered."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gym.cli.chaos_options import confirm, make_setup, show_report, tell_line
from gym.cli.options import DEFAULT_STACK, StackName
from gym.cli.stack_session import find_session, running

Rows = Annotated[list[str], typer.Argument(metavar="INPUT", help="As of gym rollouts: JSONL files, or servers' names.")]
Agent = Annotated[str, typer.Option("--agent", metavar="NAME", help="The agent of rows that name none.")]
Rollouts = Annotated[int, typer.Option("--rollouts", metavar="N", min=1, help="In one collection.")]
Minutes = Annotated[float, typer.Option("--minutes", metavar="M", min=0, help="Faults come for so long.")]
MaxFaults = Annotated[
    int | None, typer.Option("--max-faults", metavar="N", min=1, help="So many faults, however long they take.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed draws the same faults.")]
Faults = Annotated[str, typer.Option("--faults", metavar="LIST", help="Their names, with commas; default: all.")]
Concurrency = Annotated[int, typer.Option("--concurrency", metavar="P", min=1, help="Rollouts at once.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=1, help="For one attempt.")]
Routed = Annotated[bool, typer.Option("--through-router", help="Call agents through the router, never directly.")]
Proxy = Annotated[
    str,
    typer.Option("--model-proxy", metavar="PORT=URL", help="Break replies of the model at URL; the stack calls PORT."),
]
Engine = Annotated[
    str, typer.Option("--engine-restart", metavar="COMMAND", help="Restarts the engine; run once in mid-collection.")
]
Folder = Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="For rollouts, logs and report.json.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]


def command(
    rows: Rows,
    output: Folder,
    agent: Agent = "",
    rollouts: Rollouts = 10_000,
    minutes: Minutes = 10.0,
    max_faults: MaxFaults = None,
    seed: Seed = 1,
    faults: Faults = "",
    concurrency: Concurrency = 64,
    timeout: Timeout = 60.0,
    through_router: Routed = False,
    model_proxy: Proxy = "",
    engine_restart: Engine = "",
    yes: Yes = False,
    as_json: AsJson = False,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Break a stack while it collects: gym chaos mcqa -o chaos --minutes 10."""
    from gym.chaos import run_chaos  # noqa: PLC0415  (asks first, loads then)

    session = find_session(stack)
    running(session.home, session.runtime.name)
    setup = make_setup(
        session,
        rows,
        agent=agent,
        folder=output,
        rollouts=rollouts,
        minutes=minutes,
        max_faults=max_faults,
        seed=seed,
        faults=faults,
        concurrency=concurrency,
        timeout=timeout,
        through_router=through_router,
        model_proxy=model_proxy,
        engine_restart=engine_restart,
    )
    confirm(setup, yes=yes)
    return show_report(run_chaos(setup, tell_line), setup.folder, as_json=as_json)
