"""The options that several commands share, written once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gym import labels
from gym.cli.typed_stack import TypedStack, is_stack_name
from gym.errors import UserError

DEFAULT_STACK: Final = labels.DEFAULT_STACK


def _stack_name(context: typer.Context, value: str) -> str:
    """`gym --stack x ps` and `gym ps --stack x` mean the same."""
    outer: str = next((params["stack"] for params in _around(context) if "stack" in params), DEFAULT_STACK)
    source = context.get_parameter_source("stack")
    name = outer if value == DEFAULT_STACK else value
    if not is_stack_name(name):
        raise typer.BadParameter("a stack's name is up to 40 of a-z, 0-9, - and _, e.g. gym or eval-2")
    typed = isinstance(outer, TypedStack) or (source is not None and not source.name.startswith("DEFAULT"))
    return TypedStack(name) if typed else name


def _around(context: typer.Context) -> Iterator[dict[str, Any]]:
    """The options of the commands that this one is a word of, nearest first."""
    outer = context.parent
    while outer is not None:
        yield outer.params
        outer = outer.parent


StackName = Annotated[
    str, typer.Option("--stack", metavar="NAME", envvar="GYM_STACK", help="Which stack.", callback=_stack_name)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
StartTimeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=1,
        help="How long servers may take to get healthy; default: 120, more where many share few cores.",
    ),
]
Items = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME|KEY=VALUE", help="Servers by name, folder or image, and overrides of any key."),
]
ConfigFiles = Annotated[
    list[Path] | None, typer.Option("-c", "--config", metavar="FILE", help="A configuration file; may be repeated.")
]
Url = Annotated[str, typer.Option("--url", metavar="URL", help="The router of a stack of another folder.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="The bearer token of that router.")
]
ModelName = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="The policy: a model server's name, e.g. openai or scripted."),
]
Replicas = Annotated[
    list[str] | None, typer.Option("--replicas", metavar="NAME=N", help="Replicas of an instance; may be repeated.")
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Every verifier's strict mode: to train against; without, to compare with published numbers."
    ),
]
Share = Annotated[
    bool | None,
    typer.Option(
        "--share/--no-share",
        help="Whether agents of one server share a process or container. Those of ours do if they start together.",
        show_default=False,
    ),
]
Overrides = Annotated[
    list[Path] | None, typer.Option("-f", "--override", metavar="FILE", help="A Compose file, merged over ours.")
]
Port = Annotated[
    int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="The router's port; 0 lets the kernel choose.")
]
Registry = Annotated[
    str, typer.Option("--registry", metavar="PREFIX", help="Where the nodes of an engine find the images.")
]
Servers = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Instances; all of them when none.")]


def split_items(items: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and overrides, which may be mixed: an override has `=` in it, or begins with `+` or `~`."""
    overrides = tuple(item for item in items if "=" in item or item[:1] in "+~")
    return tuple(item for item in items if item not in overrides), overrides


def parse_counts(pairs: list[str], option: str) -> dict[str, int]:
    """`mcqa=4` -> {"mcqa": 4}."""
    counts = {}
    for pair in pairs:
        name, equals, number = pair.partition("=")
        if not (name and equals and number.isdecimal() and int(number) <= 1000):
            raise UserError(f"{option} {pair}: expected NAME=N with N from 0 to 1000, e.g. mcqa=4.")
        counts[name] = int(number)
    return counts
