"""`gym replay X`: runs recorded tool calls and the verifier again, without a model; shows what differs."""

from __future__ import annotations

from dataclasses import asdict

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
from gym.collect.study.tool_replay import replay_rollouts
from gym.collect.study.verifiers import run_in_loop


def command(
    rollouts: Rollouts,
    concurrency: Concurrency = 16,
    timeout: Timeout = 600,
    inputs: InputsFile = None,
    as_json: AsJson = False,
    url: Url = "",
    token_file: TokenFile = None,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Run the tools and the verifier of recorded rollouts again; exit code 1 when anything differs."""
    paths = find_rollouts(rollouts)
    options = again_options(stack, url, token_file, concurrency, timeout)
    with open_inputs(inputs or paths.materialized) as asked, count_up("replayed:") as on_progress:
        outcome = run_in_loop(lambda: replay_rollouts(paths, asked, options, on_progress))
    if as_json:
        console.show_json(asdict(outcome))
    else:
        show_outcome(outcome)
    return outcome.exit_code
