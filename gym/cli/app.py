"""The app that typer parses with: it knows every command by name, and those on the command line for real."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Container, Mapping
from typing import Annotated, Any

import typer

from gym import __version__
from gym.cli.boundary import exit_code
from gym.cli.options import DEFAULT_STACK, StackName
from gym.cli.plain_help import PlainCommand, PlainGroup
from gym.cli.sign_of_life import LIFE

Commands = Mapping[str, tuple[str, str]]


class Everything(Container[str]):
    """For `make_app`, where any command may be asked for."""

    def __contains__(self, word: object) -> bool:
        return True


def make_app(commands: Commands, groups: frozenset[str], wanted: Container[str]) -> typer.Typer:
    """An app that knows every command by name, and those in `wanted` for real: to import all takes a second."""
    app = typer.Typer(
        name="gym",
        cls=PlainGroup,
        help="Reinforcement-learning environments for language models: start them, collect verified rollouts.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(_root)
    for name, (panel, line) in commands.items():
        if name in groups and name in wanted:
            app.add_typer(_group(name, wanted), name=name, short_help=line, rich_help_panel=panel)
            continue
        app.command(
            name, cls=PlainCommand, help=None if name in wanted else line, short_help=line, rich_help_panel=panel
        )(_function(name) if name in wanted else _stub)
    return app


def _as_command(function: Callable[..., int]) -> Callable[..., Any]:
    """The function's int, or the code of the error it met, becomes the exit code."""

    @functools.wraps(function)
    def command(*args: Any, **kwargs: Any) -> None:
        with LIFE.of_command(_typed_words(function)):
            raise typer.Exit(exit_code(lambda: function(*args, **kwargs)))

    return command


def _typed_words(function: Callable[..., int]) -> str:
    """`gym data validate`, for what is said of it while it works."""
    words = function.__module__.removeprefix("gym.cli.").removeprefix("commands.").split(".")
    return " ".join(("gym", *words))


def _function(name: str) -> Callable[..., Any]:
    return _as_command(importlib.import_module(f"gym.cli.commands.{name}").command)


def _group(name: str, wanted: Container[str]) -> typer.Typer:
    """Of a group whose words are modules of their own, those in `wanted` are loaded."""
    module = importlib.import_module(f"gym.cli.commands.{name}")
    group = typer.Typer(cls=PlainGroup, help=module.__doc__, no_args_is_help=True, pretty_exceptions_enable=False)
    for word, found in module.commands.items():
        if isinstance(found, tuple) and word not in wanted:
            group.command(word, cls=PlainCommand, help=found[1])(_stub)
            continue
        function = importlib.import_module(f"gym.cli.{name}.{found[0]}").command if isinstance(found, tuple) else found
        group.command(word, cls=PlainCommand)(_as_command(function))
    return group


def _stub() -> None:
    raise AssertionError("a command on the command line is always loaded")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit()


Version = Annotated[
    bool, typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=_show_version)
]


def _root(stack: StackName = DEFAULT_STACK, version: Version = False) -> None:
    """Reinforcement-learning environments for language models: start them, collect verified rollouts."""
