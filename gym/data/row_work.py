"""The first message to a process that checks rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from gym.data.row_rules import RowRules


@dataclass(frozen=True)
class RowWork:
    """Which server's rows to check; without a folder, the contract alone."""

    rules: RowRules
    folder: str = ""
    entrypoint: str = "app.py"
    name: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


def write_work(work: RowWork) -> bytes:
    return orjson.dumps(work) + b"\n"


def read_work(line: bytes) -> RowWork:
    fields = orjson.loads(line)
    rules = fields.pop("rules")
    agents = rules.pop("agents")
    return RowWork(rules=RowRules(agents=None if agents is None else tuple(agents), **rules), **fields)
