"""What `gym exec` runs beside a server that is a process here: in its folder, with its packages and variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gym import labels
from gym.errors import InfraError, UserError
from gym.runtime.local.control import ask
from gym.runtime.local.home import Home
from gym.runtime.local.launch import find_supervisor
from gym.runtime.local.supervisor_requests import SILENCE_SECONDS
from gym.runtime.protocol import ExecCommand

# What only the server itself holds: descriptors that it inherited.
ITS_OWN: Final = frozenset({labels.ENV_LISTEN, labels.ENV_CONFIG_FILE, "LISTEN_FDS", "LISTEN_FDNAMES"})
OUR_TERMINAL: Final = ("TERM", "COLORTERM", "COLUMNS", "LINES")


def find_exec_command(home: Home, name: str, words: tuple[str, ...]) -> ExecCommand:
    """Its supervisor knows how a server was started."""
    connection = find_supervisor(home) if home.path.is_dir() else None
    if connection is None:
        raise UserError(f"the stack in {home.path} does not run.", "Start it: gym up NAMES")
    connection.settimeout(SILENCE_SECONDS)
    try:
        found = ExecCommand.model_validate(next(ask(connection, "spec", name=name))["done"])
    except (OSError, StopIteration) as error:
        what = f"the supervisor of the stack in {home.path} does not say how {name} runs."
        raise InfraError(what, "An earlier gym started it: gym down, then gym up NAMES") from error
    return prepare_exec(found, words, os.environ)


def prepare_exec(server: ExecCommand, words: tuple[str, ...], environ: Mapping[str, str]) -> ExecCommand:
    """`python` is what the server itself runs with."""
    env = {key: value for key, value in (server.env or {}).items() if key not in ITS_OWN}
    env |= {key: environ[key] for key in OUR_TERMINAL if key in environ}
    programs = Path(server.argv[0]).parent
    if (programs.parent / "pyvenv.cfg").is_file():
        env |= {"VIRTUAL_ENV": str(programs.parent), "PATH": f"{programs}{os.pathsep}{env.get('PATH', os.defpath)}"}
    argv = words or (environ.get("SHELL") or "sh",)
    return ExecCommand(replica=server.replica, argv=argv, env=env, cwd=server.cwd)
