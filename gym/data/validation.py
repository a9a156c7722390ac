"""Files validated by all cores: blocks go to the processes of their rows' servers, results come back in order."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from gym.data.findings import Fold, unpack
from gym.data.line_blocks import Block, read_blocks
from gym.data.row_rules import RowRules
from gym.data.row_workers import RowServer, RowWorkers

AHEAD: Final = 2  # blocks a core that wait for their turn
CONTRACT: Final = RowServer("the contract", Path(), Path(sys.executable))
FindServer = Callable[[str], RowServer | None]


class Input(NamedTuple):
    """A file (or `-`), and the agent of its rows that name none."""

    file: str
    agent: str = ""


class BlockResult(NamedTuple):
    """`bad` are the numbers of lines with a finding."""

    block: Block
    rows: int
    bad: frozenset[int]
    found: Fold
    notes: frozenset[str] = frozenset()  # what could not be checked, and why

    def good_lines(self) -> Iterator[bytes]:
        return (line.raw for line in self.block.lines() if line.number not in self.bad)

    def bad_lines(self) -> Iterator[bytes]:
        return (line.raw for line in self.block.lines() if line.number in self.bad)


@dataclass(frozen=True)
class Validator:
    """`find_server` finds the server of an agent's rows; it may make an environment, and is called once an agent."""

    rules: RowRules
    find_server: FindServer
    jobs: int = 1

    def check(self, inputs: Iterable[Input]) -> Iterator[BlockResult]:
        with _running(self) as checks:
            waiting: deque[Future[BlockResult]] = deque()
            for block, agent in self._blocks(inputs):
                waiting.append(checks.submit(block, agent))
                if len(waiting) >= self.jobs * AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _blocks(self, inputs: Iterable[Input]) -> Iterator[tuple[Block, str]]:
        for one in inputs:
            for block in read_blocks([one.file], self.rules.max_line):
                yield block, one.agent


@contextmanager
def _running(validator: Validator) -> Iterator[_Checks]:
    workers = RowWorkers(validator.rules)
    pool = ThreadPoolExecutor(validator.jobs, thread_name_prefix="rows")
    try:
        yield _Checks(validator.find_server, workers, pool)
    finally:
        pool.shutdown(cancel_futures=True)
        workers.close()


class _Checks:
    """One run: the agents known so far, and the server that is asked first."""

    def __init__(self, find_server: FindServer, workers: RowWorkers, pool: ThreadPoolExecutor) -> None:
        self._find_server = find_server
        self._workers = workers
        self._pool = pool
        self._agents: dict[str, Future[RowServer | None]] = {}
        self._first = CONTRACT  # the server of the last block's rows: usually of the next one's as well

    def submit(self, block: Block, agent: str) -> Future[BlockResult]:
        return self._pool.submit(self._check, block, agent)

    def _check(self, block: Block, named: str) -> BlockResult:
        fold = Fold()
        if block.problem is not None:
            fold.add(block.problem)
            lost = frozenset([block.problem.line] if block.problem.line else [])
            return BlockResult(block, len(lost), lost, fold)
        first = self._first
        reply = self._workers.check(first, block, self._agents_of(first), named)
        parts = [reply]
        for agent, lines in reply["others"].items():
            server = self._server_of(agent)
            if server is None:
                continue
            if not server.foreign:
                self._first = server
            parts.append(self._workers.check(server, block, [agent], named, lines))
        return _join(block, reply["rows"], parts)

    def _agents_of(self, server: RowServer) -> list[str]:
        return [name for name, found in list(self._agents.items()) if found.done() and found.result() == server]

    def _server_of(self, agent: str) -> RowServer | None:
        """The first who asks finds it; the others wait for that."""
        mine: Future[RowServer | None] = Future()
        found = self._agents.setdefault(agent, mine)
        if found is mine:
            try:
                mine.set_result(self._find_server(agent))
            except BaseException as error:
                mine.set_exception(error)
                raise
        return found.result()


def _join(block: Block, rows: int, parts: list[dict[str, Any]]) -> BlockResult:
    """The findings of several servers in the order of their lines."""
    fold = Fold()
    found = [one for part in parts for one in unpack(part["found"])]
    fold.merge(sorted(found, key=lambda one: one.problem.line), sum(part["left_out"] for part in parts))
    bad = frozenset(number for part in parts for number in part["bad"])
    return BlockResult(block, rows, bad, fold, frozenset(part["note"] for part in parts if part.get("note")))
