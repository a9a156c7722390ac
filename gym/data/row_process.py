"""`python -m gym.data.row_process`: checks blocks of lines that come on stdin, in the environment of a server.

The first line is the `RowWork`, as JSON. Then come blocks, each a header as JSON on one line and the block's bytes, and
each is answered by one line of JSON.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from gym.data.findings import Fold, pack
from gym.data.line_blocks import Block
from gym.data.line_source import Line
from gym.data.row_rules import Checked, agent_of, check_line
from gym.data.row_work import RowWork, read_work
from gym.errors import GymError, Problem

if TYPE_CHECKING:
    from gym.server.check_rows import RowChecker


class BlockChecker:
    """`mine` of a block's header are the agents whose rows this server verifies."""

    def __init__(self, work: RowWork, checker: RowChecker | None) -> None:
        self._rules = work.rules
        self._checker = checker

    async def check(
        self, block: Block, mine: Sequence[str], agent: str = "", only: Sequence[int] | None = None
    ) -> dict[str, Any]:
        """`agent`: of rows that name none. `only`: the numbers of the lines that are looked at."""
        rules = replace(self._rules, agent=agent) if agent else self._rules
        fold, bad, rows = Fold(), [], 0
        others: dict[str, list[int]] = {}
        wanted = None if only is None else frozenset(only)
        for line in block.lines():
            if wanted is not None and line.number not in wanted:
                continue
            rows += 1
            checked = check_line(line, rules)
            whose = agent_of(checked.row, rules) if checked.row is not None else ""
            if checked.row is not None and whose not in mine:
                others.setdefault(whose, []).append(line.number)
                continue
            problems = await self._check_fields(checked)
            if problems:
                bad.append(line.number)
                for one in problems:
                    fold.add(one)
        return {"rows": rows, "bad": bad, "others": others, "found": pack(fold), "left_out": fold.left_out}

    async def _check_fields(self, checked: Checked) -> list[Problem]:
        problems = list(checked.problems)
        if self._checker is None or checked.row is None:
            return problems
        return [_at(one, checked.line) for one in await self._checker.check(checked.line.raw)]


def _at(problem: Problem, line: Line) -> Problem:
    return replace(problem, file=line.file, line=line.number)


async def serve(stdin: BinaryIO, stdout: BinaryIO) -> None:
    work = read_work(stdin.readline())
    checker = None
    if work.folder:
        checker = _load_checker(work)
        await checker.start()
    blocks = BlockChecker(work, checker)
    try:
        while header := stdin.readline():
            request = orjson.loads(header)
            block = Block(request["file"], request["first"], stdin.read(request["size"]))
            answer = await blocks.check(block, request["mine"], request["agent"], request["only"])
            stdout.write(orjson.dumps(answer) + b"\n")
            stdout.flush()
    finally:
        if checker is not None:
            await checker.stop()


def _load_checker(work: RowWork) -> RowChecker:
    from gym.server.check_rows import RowChecker  # noqa: PLC0415 (half a second, which the contract alone never needs)
    from gym.server.serve import load_app  # noqa: PLC0415

    return RowChecker.of(load_app(Path(work.folder) / work.entrypoint), work.name, work.fields)


def main() -> int:
    """What a server prints goes to stderr: stdout is for answers."""
    with os.fdopen(os.dup(1), "wb") as stdout:
        os.dup2(2, 1)
        try:
            asyncio.run(serve(sys.stdin.buffer, stdout))
        except GymError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
