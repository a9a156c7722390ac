"""`gym build`: make the images of a stack and start nothing; `--push` hands them to a registry."""

from __future__ import annotations

from typing import Annotated

import typer

from gym.cli import console
from gym.cli.live_status import live_status
from gym.cli.options import DEFAULT_STACK, ConfigFiles, Items, ModelName, Share, StackName, Strict
from gym.cli.planning import plan_stack
from gym.cli.stack_request import load_named
from gym.cli.stack_session import home_here
from gym.config import collect_secrets
from gym.runtime.compose import ComposeRuntime

Push = Annotated[str, typer.Option("--push", metavar="PREFIX", help="Push all of them as PREFIX/NAME.")]


def command(
    items: Items = None,
    model: ModelName = None,
    files: ConfigFiles = None,
    strict: Strict = False,
    share: Share = None,
    push: Push = "",
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Build what is missing. An unchanged server builds nothing.

    Example: gym build simple_weather mcqa --push registry.example.org/team
    """
    loaded = load_named(items, model=model, files=files, strict=strict, share=share)
    home, runtime = home_here(stack), ComposeRuntime()
    prepared = runtime.prepare(home, plan_stack(loaded, stack), collect_secrets(loaded))
    with live_status("building images") as on_status:
        built = runtime.build(home, prepared, on_status, push=push)
    what = "pushed" if push else "built"
    console.note(f"{what}: {', '.join(built)}" if built else "Every image was there already.")
    return 0
