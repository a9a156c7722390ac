"""Verifier cases of a server: made of rollouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from gym.cli import console
from gym.cli.case_file import append_case, find_cases_file
from gym.cli.relative_paths import relative
from gym.cli.rollout_case import find_rollout, rollout_to_case

Rollouts = Annotated[Path, typer.Argument(metavar="ROLLOUTS", help="What `gym rollouts` wrote.")]
Key = Annotated[str, typer.Option("--key", metavar="KEY", help="Which one: `_gym.key`, or the beginning of it.")]
Server = Annotated[str, typer.Option("--server", metavar="NAME", help="Whose case; default: as the agent's name says.")]
Name = Annotated[str, typer.Option("--name", metavar="TEXT", help="What the case is called.")]
Reward = Annotated[float | None, typer.Option("--reward", metavar="R", help="What it must get, if not what it got.")]
Oracle = Annotated[bool, typer.Option("--oracle", help="It answers as a perfect policy would.")]
Steps = Annotated[bool, typer.Option("--steps/--no-steps", help="Repeat its tool calls before the verifier.")]


def add(
    rollouts: Rollouts,
    key: Key,
    server: Server = "",
    name: Name = "",
    reward: Reward = None,
    oracle: Oracle = False,
    steps: Steps = True,
) -> int:
    """Make a verifier case of a rollout: gym case add rollouts.jsonl --key 5f0c."""
    found = find_rollout(rollouts, key)
    path = find_cases_file(server, found.agent)
    case = rollout_to_case(found, path, name=name, reward=reward, oracle=oracle, steps=steps)
    append_case(path, case)
    console.show_line(f"added {case['name']!r} to {relative(path)}: it must get {case['expected_reward']:g}")
    return 0


commands: Final[dict[str, Callable[..., int]]] = {"add": add}
