"""Rollouts as a Parquet table, a row group at a time. Needs pyarrow, which nothing else here does."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from gym.collect.run_replies import STAMP
from gym.collect.study.chats import Conversation
from gym.collect.study.recorded import Recorded
from gym.errors import UserError
from gym.programs import install_command
from gym.wire.deep_values import write_cut

Row = dict[str, Any]
_GROUP: Final = 1000
_GROUP_TEXT: Final = 64 << 20  # characters: a reader cannot read a column of messages with 2 GB in a group
_MOST: Final = 1 << 63
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")


def write_parquet(rows: Iterator[Row], stream: BinaryIO) -> int:
    """How many rows were written."""
    arrow, parquet = _load()
    schema = _schema(arrow)
    written = 0
    with parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        for group in group_rows(rows):
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))
            written += len(group)
    return written


def to_row(rollout: Recorded, talk: Conversation) -> Row:
    """Raises with file:line where a field has a type that its column cannot hold without a loss."""
    prompt = [_message(one, rollout) for one in talk.prompt]
    stamp, response = rollout.fields.get(STAMP), rollout.fields["response"]
    usage = response.get("usage") or {}
    if not isinstance(usage, dict):
        raise _unfit(rollout, "response.usage", usage, "an object")
    return {
        "key": stamp.get("key") if isinstance(stamp, dict) else None,
        "task_index": rollout.task,
        "rollout_index": rollout.repeat,
        "agent": rollout.agent,
        "reward": rollout.reward,
        "model": _text(response.get("model"), rollout, "response.model"),
        "input_tokens": _count(usage.get("input_tokens"), rollout, "response.usage.input_tokens"),
        "output_tokens": _count(usage.get("output_tokens"), rollout, "response.usage.output_tokens"),
        "prompt": prompt,
        "messages": prompt + [_message(one, rollout) for one in talk.answer],
        "tools": write_cut(talk.tools).decode() if talk.tools else None,
    }


def group_rows(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """A group is held in memory, so it is closed by its size too."""
    group: list[Row] = []
    size = 0
    for row in rows:
        group.append(row)
        size += _text_size(row)
        if len(group) == _GROUP or size >= _GROUP_TEXT:
            yield group
            group, size = [], 0
    if group:
        yield group


def _text_size(row: Row) -> int:
    messages = row["prompt"] + row["messages"]
    return len(row["tools"] or "") + sum(len(text) for one in messages for text in one.values() if text)


def _load() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError("Parquet files need pyarrow, which is not installed", install_command("pyarrow")) from None


def _schema(arrow: Any) -> Any:
    text, number = arrow.string(), arrow.int64()
    message = arrow.struct([(name, text) for name in ("role", "content", "tool_calls", "tool_call_id")])
    columns = [
        ("key", text),
        ("task_index", number),
        ("rollout_index", number),
        ("agent", text),
        ("reward", arrow.float64()),
        ("model", text),
        ("input_tokens", number),
        ("output_tokens", number),
        ("prompt", arrow.list_(message)),
        ("messages", arrow.list_(message)),
        ("tools", text),
    ]
    return arrow.schema(columns)


def _message(message: dict[str, Any], rollout: Recorded) -> dict[str, Any]:
    """One shape for all: what is not text is JSON."""
    content, calls = message.get("content"), message.get("tool_calls")
    return {
        "role": _text(message.get("role"), rollout, "role of a message"),
        "content": content if isinstance(content, str) else write_cut(content).decode(),
        "tool_calls": write_cut(calls).decode() if calls else None,
        "tool_call_id": _text(message.get("tool_call_id"), rollout, "call_id of a tool's output"),
    }


def _text(value: Any, rollout: Recorded, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise _unfit(rollout, name, value, "text")


def _count(value: Any, rollout: Recorded, name: str) -> int | None:
    """An integer, also one that was written as text or as 51.0."""
    if value is None:
        return None
    whole = isinstance(value, str) and _INTEGER.fullmatch(value) or isinstance(value, float) and value.is_integer()
    count = int(value) if whole else value
    if isinstance(count, bool) or not isinstance(count, int) or not -_MOST <= count < _MOST:
        raise _unfit(rollout, name, value, "an integer of 64 bits")
    return count


def _unfit(rollout: Recorded, name: str, value: Any, wanted: str) -> UserError:
    what = f"{rollout.where}: {name}: is {repr(value)[:80]}, not {wanted}"
    return UserError(what, "add --skip-bad-rows to leave such rollouts out")
