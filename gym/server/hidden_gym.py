"""OpenAI's `gym` beside ours: one name, and files that overwrite each other. Said before a server starts."""

from __future__ import annotations

import importlib.metadata
import re

from gym.errors import UserError

OTHER = "gym"


def refuse_openai_gym() -> None:
    try:
        version = importlib.metadata.version(OTHER)
    except importlib.metadata.PackageNotFoundError:
        return
    brought = sorted(_who_requires())
    by = f" ({', '.join(brought)} requires it)" if brought else ""
    raise UserError(
        f"OpenAI's gym {version} is installed in this server's environment{by}. It and Compose Gym are both "
        "`import gym`: each overwrites files of the other, and neither works.",
        "Require gymnasium instead, and write `import gymnasium as gym`. A library that needs the old one runs in "
        "a server of its own, without this SDK (docs/nemo-gym.md), or as a program in a sandbox.",
    )


def _who_requires() -> set[str]:
    """Of what is installed. What only an extra wants is left out: nothing here tells whether it was asked for."""
    names = set()
    for one in importlib.metadata.distributions():
        required = (re.match(r"[\w.-]+", text) for text in one.requires or () if "extra ==" not in text)
        if any(found and found[0].lower() == OTHER for found in required):
            names.add(str(one.metadata["Name"]))
    return names
