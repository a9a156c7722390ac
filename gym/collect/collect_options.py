"""The options of a collection, checked before anything starts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gym.collect.queue.queue_options import QueueOptions
from gym.errors import UserError

_NAME = re.compile(r"[\w.:-]{1,200}")
SCHEMA = 1  # of the output files; a resume over another one is refused


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOptions:
    """How one rollout is tried: what the files and the library way of collecting share."""

    concurrency: int = 64
    """Rollouts at once."""
    timeout: float = 3600.0
    """Seconds for one attempt; travels in a header and is obeyed at every hop."""
    max_attempts: int = 3
    """Tries of one rollout."""
    backoff: float = 0.5
    """Seconds of the first wait before a retry, and before a paused run asks its servers again."""
    max_pause: float = 600.0
    """Give up when paused for longer, in seconds."""
    drain: float = 30.0
    """Seconds for what is under way, when the run is stopped."""
    through_router: bool = False
    """Call agents through the router, even where replicas could be called directly."""

    def __post_init__(self) -> None:
        check(1 <= self.concurrency <= 10_000, "concurrency", self.concurrency, "between 1 and 10,000")
        check(self.timeout > 0, "timeout", self.timeout, "more than 0 seconds")
        check(self.max_attempts >= 1, "max attempts", self.max_attempts, "at least 1")
        check(self.max_pause >= 0, "max pause", self.max_pause, "0 seconds or more")
        check(self.drain >= 0, "drain", self.drain, "0 seconds or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions(AttemptOptions):
    """A collection from files to files."""

    stack_url: str
    inputs: tuple[str, ...]  # paths and globs; "-" is standard input
    output: Path
    agent: str = ""  # for rows that name none
    limit: int | None = None  # the first N lines of the input, before repeats and shards
    repeats: int = 1
    shard: tuple[int, int] = (1, 1)  # (i, n): this run takes part i of n
    params: Mapping[str, Any] = field(default_factory=dict)  # shallow overrides of responses_create_params
    fill_tools: bool = False  # of the resources server, into rows that list none
    fresh: bool = False
    skip_bad_rows: bool = False
    accept_changes: bool = False  # a resume may go on with another stack than the one it began with
    aggregate: bool = True
    token: str = field(default="", repr=False)
    queue: QueueOptions | None = field(default=None, repr=False)  # what is shared with other collectors

    def __post_init__(self) -> None:
        AttemptOptions.__post_init__(self)
        check(bool(self.inputs), "input", "nothing", "one file at least, or - for standard input")
        check(self.limit is None or self.limit >= 1, "limit", self.limit, "at least 1")
        check(self.repeats >= 1, "repeats", self.repeats, "at least 1")
        check_params(self.params)
        index, parts = self.shard
        check(1 <= index <= parts, "shard", f"{index}/{parts}", "i/n with i from 1 to n, as in 2/8")
        if self.queue is not None:
            self._check_queue(self.queue)

    def _check_queue(self, queue: QueueOptions) -> None:
        if self.shard != (1, 1):
            raise UserError("--shard and --queue both divide the rows", "leave one of them out")
        if "-" in self.inputs:
            raise UserError(
                "with --queue the rows are read more than once, which standard input cannot be",
                "write them into a file that each collector has",
            )
        check(1 <= queue.lease <= 86_400, "queue lease", queue.lease, "between 1 and 86,400 seconds")
        check(bool(_NAME.fullmatch(queue.name)), "queue name", repr(queue.name), "letters, digits, - _ . : only")

    def identity(self, data_digest: str) -> dict[str, Any]:
        """What decides which rollouts the output holds: two runs that differ here never share a file."""
        return {
            "schema": SCHEMA,
            "data": data_digest,
            "limit": self.limit,
            "repeats": self.repeats,
            "shard": f"{self.shard[0]}/{self.shard[1]}",
            "agent": self.agent,
            "params": dict(self.params),
            **({"tools": "auto"} if self.fill_tools else {}),
        }


def check_params(params: Mapping[str, Any]) -> None:
    """They go over every row, so what no request can hold is said before the first."""
    try:
        json.dumps(dict(params), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise UserError(f"params cannot be written as JSON: {error}", 'params={"temperature": 1.0}') from None


def check(good: bool, name: str, found: object, wanted: str) -> None:
    if not good:
        raise UserError(f"{name} is {found}; it must be {wanted}")
