"""What a person reads when a stack is up: where it is and can be looked at, how to collect, how to stop."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import orjson
from rich.text import Text

from gym import labels
from gym.cli import console
from gym.cli.relative_paths import relative
from gym.cli.replica_table import replica_table
from gym.config import find_server, search_roots
from gym.config.example_rows import example_of
from gym.config.packed import packed_at
from gym.errors import UserError
from gym.plan import Plan
from gym.runtime.results_folder import results_folder
from gym.runtime.status import StackStatus

OUTPUT = "rollouts.jsonl"


def show_started(status: StackStatus, plan: Plan, home: Path) -> None:
    console.show(replica_table(status))
    option = labels.stack_option(status.stack)
    output = relative(results_folder(os.environ.get(labels.ENV_RESULTS, ""), home) / OUTPUT)
    lines = {
        "router": status.router,
        "collect": collect_command(plan, output) + option,
        "read": f"{status.router} in a browser",
        "stop": f"gym down{option}",
    }
    console.show()
    for name, value in lines.items():
        console.show(Text.assemble((f"{name:<8} ", "bold"), value))


def collect_command(plan: Plan, output: str = OUTPUT) -> str:
    """A command that works as it stands: the examples of the first server whose rows an agent of the stack takes."""
    agents = [service.name for service in plan.services if service.type == "responses_api_agents"]
    asked = [one for one in plan.services if one.type != "responses_api_models"]
    for service in sorted(asked, key=lambda one: one.type != "resources_servers"):
        if not agents or service.directory is None:
            continue
        example = example_of(service.directory)
        if not example.is_file():
            continue
        named = _agent_of_rows(example)
        if named in ("", *agents):
            flag = "" if named or len(agents) == 1 else f" --agent {agents[0]}"
            rows = _input(example, service.directory, service.implementation)
            return f"gym rollouts {rows} -o {shlex.quote(output)}{flag}"
    return f"gym rollouts ROWS.jsonl -o {shlex.quote(output)}"


def _agent_of_rows(example: Path) -> str:
    """What the first row names; nothing when it names none."""
    first = example.read_bytes().partition(b"\n")[0]
    try:
        return str(orjson.loads(first)["agent_ref"]["name"])
    except (ValueError, LookupError, TypeError):
        return ""


def _input(example: Path, directory: Path, server: str) -> str:
    """The server's name, or its image's, where it means this file."""
    packed = packed_at(directory)
    if packed is not None:
        return packed.reference
    try:
        entry = find_server(server, search_roots(Path.cwd(), os.environ))
    except UserError:
        return relative(example)
    return server if example_of(entry.directory) == example else relative(example)
