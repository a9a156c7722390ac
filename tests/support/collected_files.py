"""A collection of rows against an agent, from a file into files beside it, and what is in these afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import orjson

from gym.collect import CollectOptions, Event, Summary, run_collection
from tests.support.agents import FakeAgent

PARAMS: dict[str, Any] = {"responses_create_params": {}}


def write_rows(path: Path, rows: Iterable[object]) -> str:
    """Rows of a data set; bytes stand as they are."""
    lines = [row if isinstance(row, bytes) else orjson.dumps({**PARAMS, **cast(dict[str, Any], row)}) for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return str(path)


def options(agent: FakeAgent, folder: Path, rows: Iterable[object], **given: Any) -> CollectOptions:
    source = write_rows(folder / "in.jsonl", rows)
    merged = {"stack_url": agent.url, "inputs": (source,), "output": folder / "X.jsonl", "backoff": 0.001, **given}
    return CollectOptions(**merged)


def run(chosen: CollectOptions, events: list[Event] | None = None) -> Summary:
    return run_collection(chosen, (events if events is not None else []).append)


def read(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def failures(folder: Path) -> list[dict[str, Any]]:
    return read(folder / "X_failures.jsonl")
