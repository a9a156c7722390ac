"""`gym reverify X`: re-runs the verifiers on what was recorded, and shows which rewards differ."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, AsJson, StackName, TokenFile, Url
from gym.cli.study_options import (
    Concurrency,
    InputsFile,
    Rollouts,
    Timeout,
    count_up,
    rerun_options,
    show_differences,
)
from gym.collect.study.recorded import find_rollouts, open_inputs
from gym.collect.study.reverification import reverify_rollouts
from gym.collect.study.verifiers import run_in_loop
from gym.data.whole_files import refuse_other_form

Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="The rollouts as verified now.")]
Force = Annotated[bool, typer.Option("--force", help="Even where a verifier may need the session of its rollout.")]


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
    """Re-run the verifiers of a collection; exit code 1 when any reward differs."""
    if output:
        refuse_other_form(output)
    paths = find_rollouts(rollouts)
    options = rerun_options(stack, url, token_file, concurrency, timeout)
    with open_inputs(inputs or paths.materialized) as asked, count_up("verified:") as on_progress:
        result = run_in_loop(lambda: reverify_rollouts(paths, asked, options, on_progress, output=output, force=force))
    if as_json:
        console.show_json(asdict(result))
    else:
        show_differences(result)
    return result.exit_code
