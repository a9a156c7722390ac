"""What a person reads when a stack is up: where it is, how to collect, how to stop."""

from __future__ import annotations

import os
from pathlib import Path

from rich.text import Text

from gym.cli import console
from gym.cli.live import replica_table
from gym.cli.options import DEFAULT_STACK
from gym.plan import Plan
from gym.runtime.base import StackStatus

EXAMPLE = Path("data") / "example.jsonl"


def show_started(status: StackStatus, plan: Plan) -> None:
    console.show(replica_table(status))
    flag = "" if status.stack == DEFAULT_STACK else f" --stack {status.stack}"
    lines = {"router": status.router, "collect": _collect(plan) + flag, "stop": f"gym down{flag}"}
    console.show()
    for name, value in lines.items():
        console.show(Text.assemble((f"{name:<8} ", "bold"), value))


def _collect(plan: Plan) -> str:
    """A command that works as it stands: the examples of the first server that has some."""
    for service in plan.services:
        example = service.directory / EXAMPLE if service.directory else None
        if example and service.type == "resources_servers" and example.is_file():
            return f"gym rollouts {_input(example, service.implementation)} -o rollouts.jsonl"
    return "gym rollouts ROWS.jsonl -o rollouts.jsonl"


def _input(example: Path, server: str) -> str:
    """A path from here, or the server's name where the path would be long."""
    return relative(example) if example.is_relative_to(Path.cwd()) else server


def relative(path: Path) -> str:
    """The shortest way to name a file from here."""
    below = os.path.relpath(path)
    return str(path) if below.startswith("..") else below
