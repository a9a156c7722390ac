"""`gym render`: what a runtime would be given, without starting anything."""

from __future__ import annotations

from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, ConfigFiles, Items, ModelName, Replicas, StackName, Strict
from gym.cli.planning import plan_stack
from gym.cli.rendering import Target, render_plan
from gym.cli.stack_request import load_named
from gym.cli.stack_session import find_session, home_here
from gym.config import collect_secrets
from gym.plan import changes_to_text


def command(
    items: Items = None,
    model: ModelName = None,
    files: ConfigFiles = None,
    strict: Strict = False,
    replicas: Replicas = None,
    target: Annotated[Target, typer.Option(metavar="plan|traefik|compose", help="What to print.")] = "plan",
    differ: Annotated[bool, typer.Option("--diff", help="Print what `gym up` would change.")] = False,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Print the plan of a stack, or the files a runtime would be given, or how it differs from what runs."""
    loaded = load_named(items, model=model, files=files, replicas=replicas, strict=strict)
    for notice in loaded.notices:
        console.note(notice)
    plan, secrets = plan_stack(loaded, stack), collect_secrets(loaded)
    if differ:
        home, runtime = find_session(stack)
        console.show_raw(changes_to_text(runtime.changes(home, runtime.prepare(home, plan, secrets))))
        return 0
    console.show_raw(render_plan(plan, target, secrets=secrets, home=home_here(stack)))
    return 0
