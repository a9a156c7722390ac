"""Rollouts as a Parquet table, a row group at a time. Needs pyarrow, which nothing else here does."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from gym.collect.run_replies import STAMP
from gym.collect.study.chats import Conversation
from gym.collect.study.recorded import Recorded
from gym.errors import UserError
from gym.programs import install_command
from gym.wire.deep_values import write_cut

_GROUP = 1000


def write_parquet(rollouts: Iterator[tuple[Recorded, Conversation]], stream: BinaryIO) -> int:
    """How many rows were written."""
    arrow, parquet = _load()
    schema = _schema(arrow)
    written = 0
    with parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        while rows := [_row(rollout, talk) for rollout, talk in islice(rollouts, _GROUP)]:
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
            written += len(rows)
    return written


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


def _row(rollout: Recorded, talk: Conversation) -> dict[str, Any]:
    response = rollout.fields["response"]
    usage = response.get("usage") or {}
    prompt = [_message(one) for one in talk.prompt]
    return {
        "key": (rollout.fields.get(STAMP) or {}).get("key"),
        "task_index": rollout.task,
        "rollout_index": rollout.repeat,
        "agent": rollout.agent,
        "reward": rollout.reward,
        "model": response.get("model"),
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "prompt": prompt,
        "messages": prompt + [_message(one) for one in talk.answer],
        "tools": write_cut(talk.tools).decode() if talk.tools else None,
    }


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """One shape for all: what is not text is JSON."""
    content, calls = message.get("content"), message.get("tool_calls")
    return {
        "role": message.get("role"),
        "content": content if isinstance(content, str) else write_cut(content).decode(),
        "tool_calls": write_cut(calls).decode() if calls else None,
        "tool_call_id": message.get("tool_call_id"),
    }
