"""What a process that checks rows is told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from gym.data.validate import Rules


@dataclass(frozen=True)
class Work:
    """What a process is for. Without a folder it knows the contract alone."""

    rules: Rules
    folder: str = ""
    entrypoint: str = "app.py"
    name: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


def write_work(work: Work) -> bytes:
    return orjson.dumps(work) + b"\n"


def read_work(line: bytes) -> Work:
    told = orjson.loads(line)
    rules = told.pop("rules")
    agents = rules.pop("agents")
    return Work(rules=Rules(agents=None if agents is None else tuple(agents), **rules), **told)
