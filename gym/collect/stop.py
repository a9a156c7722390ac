"""Ctrl-C as a value: pulled once a run takes no more rows and drains, pulled twice it cancels what is under way."""

from __future__ import annotations

import asyncio


class Stopped(Exception):  # noqa: N818 (not an error: a person asked)
    """The run was stopped before or after its rollouts: while it read files."""


class StopSwitch:
    """Give it to a collection and call `pull` from a signal handler of the same event loop."""

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        self.cancel = asyncio.Event()

    def pull(self) -> None:
        (self.cancel if self.drain.is_set() else self.drain).set()

    def check(self) -> None:
        """For long work in threads."""
        if self.drain.is_set():
            raise Stopped
