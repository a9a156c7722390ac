"""Help and refusals in the words of who types: no `--json <bool>` in a usage line, no `Value error,` in a message."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# How the validator says it, and how it is said here.
VALIDATORS_WORDS = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "it must be a whole number",
    "Input should be a valid number, unable to parse string as a number": "it must be a number",
    "Input should be": "it must be",
}


class PlainCommand(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            for theirs, ours in VALIDATORS_WORDS.items():
                error.message = error.message.replace(theirs, ours)
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


# Words that people bring along from other programs, and what they are called here.
INSTEAD = {
    "run": "gym up NAMES starts servers, gym rollouts collects, gym ask AGENT asks one question",
    "start": "gym up NAMES",
    "stop": "gym down",
    "status": "gym ps",
    "diff": "gym render NAMES --diff",
    "prepare": "gym data prepare joins data sets; gym rollouts needs none of it and checks rows as it reads them",
    "init": "gym new resources NAME",
    "collect": "gym rollouts INPUT -o OUTPUT",
    "eval": "gym up NAMES, then gym rollouts INPUT -o OUTPUT",
    "serve": "gym up NAMES",
    "validate": "gym data validate FILES",
    "download": "gym data download NAME",
    "kill": "gym down",
    "servers": "gym list shows what can be started, gym ps what runs",
}


class PlainGroup(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in INSTEAD and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command '{args[0]}'. Here it is: {INSTEAD[args[0]]}.")
        return super().resolve_command(ctx, args)


def _without_types(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
        elif param.param_type_name == "argument" and param.metavar:
            param.display_type_rich = _no_type  # the metavar says what it is
    return params


def _no_type(ctx: Any) -> str:
    return ""
