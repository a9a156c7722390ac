"""`python -m gym.data.row_process`: checks blocks of lines that come on stdin, in the environment of a server.

The first line is the `Work`, as JSON. Then, again and again, a header as JSON on one line and the block's bytes; each
is answered by one line of JSON.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from gym.data.findings import Fold, pack
from gym.data.line_blocks import Block
from gym.data.source import Line
from gym.data.validate import Checked, Rules, agent_of, check_line
from gym.errors import GymError, Problem
from gym.server.check_rows import RowChecker
from gym.server.serve import load_app


@dataclass(frozen=True)
class Work:
    """What a process is for. Without a folder it knows the contract alone."""

    rules: Rules
    folder: str = ""
    entrypoint: str = "app.py"
    name: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


class BlockChecker:
    """`mine` of a block's header are the agents whose rows this server verifies."""

    def __init__(self, work: Work, checker: RowChecker | None) -> None:
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
        checker = RowChecker.of(load_app(Path(work.folder) / work.entrypoint), work.name, work.fields)
        await checker.start()
    blocks = BlockChecker(work, checker)
    try:
        while header := stdin.readline():
            told = orjson.loads(header)
            block = Block(told["file"], told["first"], stdin.read(told["size"]))
            answer = await blocks.check(block, told["mine"], told["agent"], told["only"])
            stdout.write(orjson.dumps(answer) + b"\n")
            stdout.flush()
    finally:
        if checker is not None:
            await checker.stop()


def write_work(work: Work) -> bytes:
    return orjson.dumps(work) + b"\n"


def read_work(line: bytes) -> Work:
    told = orjson.loads(line)
    rules = told.pop("rules")
    agents = rules.pop("agents")
    return Work(rules=Rules(agents=None if agents is None else tuple(agents), **rules), **told)


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
