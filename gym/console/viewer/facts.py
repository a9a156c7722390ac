"""What the list of the page needs of a line: whose rollout, its reward, what failed, what was asked. Never raises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gym.collect.run_replies import FAILURE_CLASS, STAMP
from gym.data.row_parsing import AGENT_REF, PARAMS
from gym.wire import items
from gym.wire.metrics import ROLLOUT, TASK

MALFORMED = "malformed"
NO_NUMBER = math.nan
_LONGEST_TITLE = 160
_LONGEST_NAME = 200  # of a name that a file chose


@dataclass(frozen=True, slots=True)
class Facts:
    """One line. `kind` is empty for a rollout, else what went wrong."""

    agent: str = ""
    kind: str = ""
    reward: float = NO_NUMBER
    task: int = -1
    repeat: int = -1
    seconds: float = NO_NUMBER
    tokens: int = -1


def read_facts(raw: bytes, *, failed: bool) -> Facts:
    """`failed`: the line is from the file of failures, where nothing counts as a reward."""
    row, _ = parse_line(raw)
    if row is None:
        return Facts(kind=MALFORMED)
    stamp = _mapping(row.get(STAMP))
    return Facts(
        agent=_agent(row, stamp),
        kind=_failure_kind(row) if failed or FAILURE_CLASS in row else "",
        reward=NO_NUMBER if failed else _number(row.get("reward")),
        task=_whole(row.get(TASK)),
        repeat=_whole(row.get(ROLLOUT)),
        seconds=_number(stamp.get("seconds")),
        tokens=_whole(_mapping(_mapping(row.get("response")).get("usage")).get("total_tokens")),
    )


def parse_line(raw: bytes) -> tuple[dict[str, Any] | None, str]:
    """The line as an object, or None and why it is none."""
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return None, f"not JSON: {error}"
    return (row, "") if isinstance(row, dict) else (None, "not an object, which every rollout is")


def read_title(row: Mapping[str, Any]) -> str:
    """What was asked last, or how it failed, on one line."""
    params = _mapping(row.get(PARAMS))
    asked = [
        items.item_text(item, " ") for item in items.input_items(params.get("input")) if items.is_message(item, "user")
    ]
    said = (
        next((text for text in reversed(asked) if text.strip()), "") or row.get("message") or params.get("instructions")
    )
    return " ".join(str(said or "")[: _LONGEST_TITLE * 8].split())[:_LONGEST_TITLE]


def _agent(row: Mapping[str, Any], stamp: Mapping[str, Any]) -> str:
    name = _mapping(row.get(AGENT_REF)).get("name") or stamp.get("agent") or ""
    return str(name)[:_LONGEST_NAME]


def _failure_kind(row: Mapping[str, Any]) -> str:
    return str(row.get("kind") or row.get(FAILURE_CLASS) or "failed")[:_LONGEST_NAME]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else NO_NUMBER


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else -1
