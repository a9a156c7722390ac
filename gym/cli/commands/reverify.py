"""`gym reverify X`: runs the verifiers again on recorded rollouts; shows which rewards changed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, AsJson, StackName
from gym.cli.study_options import (
    Concurrency,
    InputsFile,
    Rollouts,
    Timeout,
    TokenFile,
    Url,
    again_options,
    count_up,
    show_outcome,
)
from gym.collect.study.recorded import find_rollouts, open_inputs
from gym.collect.study.reverification import reverify_rollouts
from gym.collect.study.verifiers import run_in_loop

Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="The rollouts as verified now.")]
Force = Annotated[bool, typer.Option("--force", help="Also verifiers that may need a session.")]


def command(
    rollouts: Rollouts,
    output: Output = None,
    force: Force = False,
    concurrency: Concurrency = 16,
    timeout: Timeout = 600,
    inputs: InputsFile = None,
    as_json: AsJson = False,
    url: Url = "",
    token_file: TokenFile = None,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Run the verifiers of a collection again; exit code 1 when any reward differs."""
    paths = find_rollouts(rollouts)
    options = again_options(stack, url, token_file, concurrency, timeout)
    with open_inputs(inputs or paths.materialized) as asked, count_up("verified again:") as on_progress:
        outcome = run_in_loop(lambda: reverify_rollouts(paths, asked, options, on_progress, output=output, force=force))
    if as_json:
        console.show_json(asdict(outcome))
    else:
        show_outcome(outcome)
    return outcome.exit_code
