"""A command beside a server that is a process here: in its folder, with its environment and its variables. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gym import labels
from gym.runtime.protocol import Inside

# What only the server itself holds: descriptors that it inherited.
ITS_OWN: Final = frozenset({labels.ENV_LISTEN, labels.ENV_CONFIG_FILE, "LISTEN_FDS", "LISTEN_FDNAMES"})
OUR_TERMINAL: Final = ("TERM", "COLORTERM", "COLUMNS", "LINES")


def beside(server: Inside, words: tuple[str, ...], environ: Mapping[str, str]) -> Inside:
    """`python` is what the server itself runs with."""
    env = {key: value for key, value in (server.env or {}).items() if key not in ITS_OWN}
    env |= {key: environ[key] for key in OUR_TERMINAL if key in environ}
    programs = Path(server.argv[0]).parent
    if (programs.parent / "pyvenv.cfg").is_file():
        env |= {"VIRTUAL_ENV": str(programs.parent), "PATH": f"{programs}{os.pathsep}{env.get('PATH', os.defpath)}"}
    argv = words or (environ.get("SHELL") or "sh",)
    return Inside(replica=server.replica, argv=argv, env=env, cwd=server.cwd)
