"""Parses and calls, nothing else. A command's module is imported only when its name is on the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise

from gym.cli.boundary import exit_code, interruptible
from gym.cli.overview import overview
from gym.cli.quick_commands import read_quick

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
    "chaos": ("Run a stack", "Break a stack while it collects, and compare the rollouts."),
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
    "play": ("Collect", "Be the policy yourself: one row, its tools, the verifier's word."),
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
    "case": ("Write servers", "Make verifier cases of rollouts."),
    "audit": ("Write servers", "Measure how good an environment's verifier is."),
    "config": ("Look inside", "Print the merged, checked configuration, secrets masked."),
    "render": ("Look inside", "Print what a runtime would be given."),
    "doctor": ("Look inside", "Check this machine; say what fixes what is missing."),
    "version": ("Look inside", "Print versions."),
}

HELP = frozenset({"--help", "-h"})
GROUPS = frozenset({"case", "data", "sandbox"})  # commands of several words: the module has `commands`, each a function


def run(argv: Sequence[str] | None = None) -> int:
    """The command line's exit code: 0 fine, 1 a known error, 2 wrong usage, 3 a bug, 130 Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:2] == ["rollouts", "merge"]:  # `gym rollouts merge` is where one looks for it
        del arguments[0]
    if argv is None and starts_local_stack(arguments):
        supervised = _begin_supervisor()
        if supervised is not None:
            return supervised
    elif argv is None and arguments[:1] == ["up"] and not HELP & set(arguments):
        from gym.engine import ask_compose_ahead  # noqa: PLC0415  (for those that may need it)

        ask_compose_ahead()
    try:
        with interruptible():
            return exit_code(lambda: _call(arguments))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def starts_local_stack(arguments: Sequence[str]) -> bool:
    """Read without a parser. An argument that this misses costs time and nothing else."""
    named = "--runtime=local" in arguments or ("--runtime", "local") in pairwise(arguments)
    return arguments[:1] == ["up"] and named and not HELP & set(arguments)


def _begin_supervisor() -> int | None:
    """None in the command. In the supervisor, which is a fork: how it ended."""
    from gym.runtime.local.early_supervisor import EARLY  # noqa: PLC0415  (for those that start a stack of processes)

    given = EARLY.begin()
    if given is None:
        return None
    from gym.runtime.local import supervisor  # noqa: PLC0415  (only in the fork)

    return supervisor.main(given)


def _call(arguments: Sequence[str]) -> int:
    """The parser costs a tenth of a second of CPU: what needs none of it goes without."""
    completing = "_GYM_COMPLETE" in os.environ
    if not completing and (page := overview(arguments, COMMANDS)):
        sys.stdout.write(page)
        return 0 if arguments else 2
    if not completing and (quick := read_quick(arguments, os.environ)):
        return quick.run()
    from gym.cli.app import Everything, make_app  # noqa: PLC0415  (typer)

    # Completion asks about any command, so it needs them all.
    wanted = Everything() if completing else frozenset(arguments)
    return make_app(COMMANDS, GROUPS, wanted)(arguments, prog_name="gym") or 0
