"""Parses and calls, nothing else. A command's module is imported only when its name is on the command line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import typer

from gym import __version__
from gym.cli.boundary import exit_code, guarded, interruptible
from gym.cli.options import DEFAULT_STACK, StackName
from gym.cli.plain_help import PlainCommand, PlainGroup

# name -> (panel of the help, one line). The module is gym.cli.commands.<name>, its function `command`.
COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("Run a stack", "Start servers behind one router and wait until all are healthy."),
    "down": ("Run a stack", "Stop everything a stack started."),
    "ps": ("Run a stack", "Show the replicas of a stack."),
    "ls": ("Run a stack", "Show all your stacks, wherever they were started."),
    "logs": ("Run a stack", "Print the logs of servers."),
    "restart": ("Run a stack", "Restart servers one after the other."),
    "scale": ("Run a stack", "Change how many replicas a server has, while it runs."),
    "exec": ("Run a stack", "Run a command, or a shell, where a server runs."),
    "prune": ("Run a stack", "Remove images, environments and caches that nothing uses."),
    "sandbox": ("Run a stack", "List, enter and remove the sandboxes of a stack."),
    "build": ("Carry and pin", "Build the images of a stack, and push them."),
    "pack": ("Carry and pin", "Make one image of an environment: code, rows, cases, agent."),
    "push": ("Carry and pin", "Push a packed environment to its registry."),
    "pull": ("Carry and pin", "Pull a packed environment."),
    "lock": ("Carry and pin", "Write down what a stack is made of, for `gym up --locked`."),
    "save": ("Carry and pin", "Write a built stack to one file."),
    "load": ("Carry and pin", "Bring up a saved stack; needs no network."),
    "ask": ("Collect", "Ask an agent one question, or one row, and read the conversation."),
    "rollouts": ("Collect", "Collect verified rollouts over a data set."),
    "view": ("Collect", "Read rollouts in a browser, or write them as a page."),
    "data": ("Data sets", "Check, measure, collate, fetch and make data sets."),
    "profile": ("After collecting", "Show how hard each task was; keep those between."),
    "compare": ("After collecting", "Compare two collections, paired by task."),
    "reverify": ("After collecting", "Run the verifiers of a collection again."),
    "replay": ("After collecting", "Run recorded tool calls and verifiers again, without a model."),
    "export": ("After collecting", "Write training data: sft, dpo, parquet."),
    "merge": ("After collecting", "Join the shards of a collection."),
    "list": ("Write servers", "List the servers that can be named."),
    "info": ("Write servers", "Show what a server is, where it lives and how to start it."),
    "new": ("Write servers", "Make a new server from a template."),
    "migrate": ("Write servers", "Copy servers of a NeMo Gym checkout into our layout."),
    "test": ("Write servers", "Run a server's own tests and verifier cases in its own environment."),
    "audit": ("Write servers", "Measure how good an environment's verifier is."),
    "config": ("Look inside", "Print the merged, checked configuration, secrets masked."),
    "render": ("Look inside", "Print what a runtime would be given."),
    "doctor": ("Look inside", "Check this machine; say what fixes what is missing."),
    "version": ("Look inside", "Print versions."),
}

GROUPS = frozenset({"data", "sandbox"})  # commands of several words: the module has `commands`, each a function


def run(argv: Sequence[str] | None = None) -> int:
    """The command line's exit code: 0 fine, 1 known trouble, 2 wrong usage, 3 a bug, 130 Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:2] == ["rollouts", "merge"]:  # `gym rollouts merge` is where one looks for it
        del arguments[0]
    # Completion asks about any command, so it needs them all.
    wanted = COMMANDS if "_GYM_COMPLETE" in os.environ else COMMANDS.keys() & set(arguments)
    try:
        with interruptible():
            return exit_code(lambda: make_app(wanted)(arguments, prog_name="gym") or 0)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def make_app(wanted: Iterable[str]) -> typer.Typer:
    """An app that knows every command by name, and those in `wanted` for real."""
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
    for name, (panel, line) in COMMANDS.items():
        if name in GROUPS and name in wanted:
            app.add_typer(_group(name), name=name, short_help=line, rich_help_panel=panel)
            continue
        app.command(
            name, cls=PlainCommand, help=None if name in wanted else line, short_help=line, rich_help_panel=panel
        )(_function(name) if name in wanted else _stub)
    return app


def _function(name: str) -> Callable[..., Any]:
    return guarded(importlib.import_module(f"gym.cli.commands.{name}").command)


def _group(name: str) -> typer.Typer:
    module = importlib.import_module(f"gym.cli.commands.{name}")
    group = typer.Typer(cls=PlainGroup, help=module.__doc__, no_args_is_help=True, pretty_exceptions_enable=False)
    for word, function in module.commands.items():
        group.command(word, cls=PlainCommand)(guarded(function))
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
