"""A server that refuses its fields names them, and not the file: here each gets the line on which it was written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from gym.config import StackConfig
from gym.config.model import Instance
from gym.errors import NotUp


@contextmanager
def naming_lines(loaded: StackConfig) -> Iterator[None]:
    """Below a server's last words stands `FILE:LINE: KEY: …` for each field that it refused."""
    try:
        yield
    except NotUp as error:
        found = [line for one in loaded.instances for line in refused_lines(one, error.log)]
        if not found:
            raise
        log = "\n".join([error.log.rstrip("\n"), *dict.fromkeys(found)])
        raise NotUp(error.server, error.problem, log, error.hint) from None


def refused_lines(instance: Instance, log: str) -> list[str]:
    """As `gym.server.config` tells it: `INSTANCE: KEY: WHAT`, behind what logging puts before it."""
    refused = re.findall(rf"(?m)(?:^|\s){re.escape(instance.name)}: ([\w.-]+): (.+)$", log)
    return [f"{where}: {instance.name}.{key}: {what}" for key, what in refused if (where := _place(instance, key))]


def _place(instance: Instance, key: str) -> str:
    """Its own, or of what is around it where it is missing."""
    parts = key.split(".")
    around = (".".join(parts[:count]) for count in range(len(parts), -1, -1))
    return next((instance.places[one] for one in around if one in instance.places), "")
