"""`gym replay X`: re-runs the recorded tool calls and the verifier, without a model, and shows each difference."""

from __future__ import annotations

from dataclasses import asdict

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
    """Re-run the tools and the verifier of recorded rollouts; exit code 1 when anything differs."""
    paths = find_rollouts(rollouts)
    options = rerun_options(stack, url, token_file, concurrency, timeout)
    with open_inputs(inputs or paths.materialized) as asked, count_up("replayed:") as on_progress:
        result = run_in_loop(lambda: replay_rollouts(paths, asked, options, on_progress))
    if as_json:
        console.show_json(asdict(result))
    else:
        show_differences(result)
    return result.exit_code
