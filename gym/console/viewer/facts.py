"""What the pages need of a line: whose rollout, its reward, what failed, what was asked, which tools. Never raises."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from gym.collect.keys import parse_key
from gym.collect.provenance import BREAK
from gym.collect.run_replies import FAILURE_CLASS, STAMP
from gym.data.row_parsing import AGENT_REF, PARAMS
from gym.wire import items
from gym.wire.metrics import ROLLOUT, TASK
from gym.wire.token_breaks import find_break

MALFORMED = "malformed"
NO_NUMBER = math.nan
MAX_MEASURES = 64  # components of a reward that a file's columns hold; hops likewise
_LONGEST_TITLE = 160
_LONGEST_NAME = 200  # of a name that a file chose
_MAX_TOOLS = 64
_CALL = "_call"
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # of a character beyond 16 bits
_NO_COMPONENT = frozenset({"reward", PARAMS, "response", AGENT_REF})


@dataclass(frozen=True, slots=True)
class Facts:
    """One line. `kind` is empty for a rollout, else what went wrong. An unknown count is -1, another number NaN."""

    agent: str = ""
    kind: str = ""
    reward: float = NO_NUMBER
    task: int = -1
    repeat: int = -1
    seconds: float = NO_NUMBER
    tokens: int = -1
    tokens_in: int = -1
    tokens_out: int = -1
    steps: int = 0  # calls of tools and messages of the policy
    queued: float = NO_NUMBER
    began: float = NO_NUMBER  # seconds since the epoch
    tools: tuple[str, ...] = ()  # used, in the order of their names
    digest: int = 0  # of the row's text; 0 where the collector wrote none
    truncated: bool = False
    breaks: bool = False  # the policy's token ids do not continue the former turn
    title: str = ""
    components: Mapping[str, float] = field(default_factory=dict)  # numbers that the verifier added
    hops: Mapping[str, float] = field(default_factory=dict)  # milliseconds


def read_facts(raw: bytes, *, failed: bool) -> Facts:
    """`failed`: the line is from the file of failures, where nothing counts as a reward."""
    row, _ = parse_line(raw)
    if row is None:
        return Facts(kind=MALFORMED)
    stamp = mapping(row.get(STAMP))
    response = mapping(row.get("response"))
    usage = mapping(response.get("usage"))
    steps, tools = _actions(response.get("output"))
    return Facts(
        agent=_agent(row, stamp),
        kind=_failure_kind(row) if failed or FAILURE_CLASS in row else "",
        reward=NO_NUMBER if failed else _number(row.get("reward")),
        task=_whole(row.get(TASK)),
        repeat=_whole(row.get(ROLLOUT)),
        seconds=_number(stamp.get("seconds")),
        tokens=_whole(usage.get("total_tokens")),
        tokens_in=_whole(usage.get("input_tokens")),
        tokens_out=_whole(usage.get("output_tokens")),
        steps=steps,
        queued=_number(stamp.get("queued")),
        began=_number(stamp.get("started")),
        tools=tools,
        digest=_digest(stamp.get("key")),
        truncated=response.get("status") == "incomplete" or bool(mapping(response.get("incomplete_details"))),
        breaks=bool(stamp.get(BREAK)) if stamp else find_break(response.get("output")) is not None,
        title=read_title(row),
        components={} if failed else dict(_components(row)),
        hops=_numbers(mapping(stamp.get("hops"))),
    )


def parse_line(raw: bytes) -> tuple[dict[str, Any] | None, str]:
    """The line as an object, or None and why it is none."""
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        row = _parse_halves(raw) if _HALF.search(raw) else None
        if row is None:
            return None, f"not JSON: {error}"
    return (row, "") if isinstance(row, dict) else (None, "not an object, which every rollout is")


def _parse_halves(raw: bytes) -> Any:
    """A line with halves of characters, as Python writes bytes that are not text (`\\udc80`); they come as `?`. None
    where it is not JSON for other reasons."""
    try:
        text = json.dumps(json.loads(raw, parse_constant=_refuse), ensure_ascii=False)
        return orjson.loads(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # a browser reads no NaN


def read_title(row: Mapping[str, Any]) -> str:
    """What was asked last, or how it failed, on one line."""
    params = mapping(row.get(PARAMS))
    asked = [
        items.item_text(item, " ") for item in items.input_items(params.get("input")) if items.is_message(item, "user")
    ]
    said = (
        next((text for text in reversed(asked) if text.strip()), "") or row.get("message") or params.get("instructions")
    )
    return " ".join(str(said or "")[: _LONGEST_TITLE * 8].split())[:_LONGEST_TITLE]


def _agent(row: Mapping[str, Any], stamp: Mapping[str, Any]) -> str:
    name = mapping(row.get(AGENT_REF)).get("name") or stamp.get("agent") or ""
    return str(name)[:_LONGEST_NAME]


def _failure_kind(row: Mapping[str, Any]) -> str:
    return str(row.get("kind") or row.get(FAILURE_CLASS) or "failed")[:_LONGEST_NAME]


def _actions(output: object) -> tuple[int, tuple[str, ...]]:
    """(how many, the tools among them)."""
    count, tools = 0, set()
    for item in output if isinstance(output, list) else ():
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "message":
            count += 1
        elif isinstance(kind, str) and kind.endswith(_CALL):
            count += 1
            tools.add(str(item.get("name") or kind.removesuffix(_CALL))[:_LONGEST_NAME])
    return count, tuple(sorted(tools)[:_MAX_TOOLS])


def _components(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """A verifier adds its fields behind the response: numbers, and objects of numbers (`scores.style`)."""
    keys = list(row)
    added = keys[keys.index("response") + 1 :] if "response" in row else keys
    for key in added:
        value = row[key]
        if key in _NO_COMPONENT or key.startswith("_"):
            continue
        if isinstance(value, dict):
            yield from ((f"{key}.{name}"[:_LONGEST_NAME], one) for name, one in _numbers(value).items())
        elif not math.isnan(number := _number(value)):
            yield key[:_LONGEST_NAME], number


def _numbers(value: Mapping[str, Any]) -> dict[str, float]:
    if len(value) > MAX_MEASURES:
        return {}
    return {name: number for name, one in value.items() if not math.isnan(number := _number(one))}


def _digest(key: object) -> int:
    try:
        return parse_key(str(key))[0] & 0xFFFF_FFFF_FFFF_FFFF
    except ValueError:
        return 0


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else NO_NUMBER


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else -1
