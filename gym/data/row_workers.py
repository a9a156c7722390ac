"""Processes that check blocks of lines, each in the environment of the server whose rows these are."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from gym.data.findings import Fold, pack
from gym.data.line_blocks import Block
from gym.data.row_rules import LineRules
from gym.data.row_work import RowWork, write_work
from gym.errors import InfraError, Problem
from gym.venvs import bytecode_elsewhere

MODULE: Final = "gym.data.row_process"
FOREIGN: Final = Path(__file__).with_name("foreign_rows.py")
END_SECONDS: Final = 30.0


@dataclass(frozen=True)
class RowServer:
    """A resources server whose rows are to be checked, and what to run it with."""

    name: str
    folder: Path
    python: Path
    fields: dict[str, Any] = field(default_factory=dict, hash=False)
    entrypoint: str = "app.py"
    foreign: bool = False  # written against nemo_gym: it has nothing of ours


class RowWorker:
    """One process; its caller asks it one block at a time."""

    def __init__(self, server: RowServer, rules: LineRules) -> None:
        self._server = server
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        work = RowWork(rules)
        if server.folder != Path():
            work = RowWork(rules, str(server.folder), server.entrypoint, server.name, server.fields)
        self._process = subprocess.Popen(  # noqa: S603 (ourselves, in the server's environment)
            (str(server.python), *(("-P", str(FOREIGN)) if server.foreign else ("-m", MODULE))),
            cwd=server.folder,
            env={**os.environ, **bytecode_elsewhere(os.environ), **_python_path(server)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=1 << 16,
        )
        self._send(write_work(work))

    def check(self, block: Block, mine: Sequence[str], agent: str, only: Sequence[int] | None) -> dict[str, Any]:
        where = {"file": block.file, "first": block.first, "size": len(block.raw)}
        self._send(orjson.dumps({**where, "mine": mine, "agent": agent, "only": only}) + b"\n", block.raw)
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise self._ended()
        reply: dict[str, Any] = orjson.loads(answer)
        return _explain(self._server, block.file, reply) if self._server.foreign else reply

    def close(self) -> None:
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._stderr.close()

    def _send(self, *parts: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # `check`, which waits for the answer, raises its last words
            for part in parts:
                self._process.stdin.write(part)
            self._process.stdin.flush()

    def _ended(self) -> InfraError:
        code = self._process.wait()
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip().splitlines()[-8:]
        what = f"{self._server.name}: its rows cannot be checked, the process ended with exit code {code}"
        return InfraError("\n".join([what, *said]), f"does the server start? gym test {self._server.name}")


def _python_path(server: RowServer) -> dict[str, str]:
    """Servers written against nemo_gym import each other from the root of their repository, two folders up."""
    if not server.foreign:
        return {}
    parts = (str(server.folder.parent.parent), os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": os.pathsep.join(part for part in parts if part)}


def _explain(server: RowServer, file: str, reply: dict[str, Any]) -> dict[str, Any]:
    """The answer of `foreign_rows` as `row_process` would have said it."""
    fold = Fold()
    for one in reply["problems"]:
        fold.add(Problem(file=file, hint=f"{server.name}'s own model wants it otherwise", **one))
    note = f"{server.name} is a nemo_gym server, and {reply['why']}: its rows were checked against the contract alone"
    return {
        "rows": 0,
        "bad": sorted({one["line"] for one in reply["problems"]}),
        "others": {},
        "found": pack(fold),
        "left_out": fold.left_out,
        "note": note if reply["why"] else "",
    }


class RowWorkers:
    """Makes a process when one is wanted and none is idle, never more of a server than threads that ask."""

    def __init__(self, rules: LineRules, make: Callable[[RowServer, LineRules], RowWorker] = RowWorker) -> None:
        self._rules = rules
        self._make = make
        self._lock = threading.Lock()
        self._idle: dict[RowServer, list[RowWorker]] = {}
        self._all: list[RowWorker] = []

    def check(
        self,
        server: RowServer,
        block: Block,
        mine: Sequence[str],
        agent: str = "",
        only: Sequence[int] | None = None,
    ) -> dict[str, Any]:
        worker = self._take(server)
        answer = worker.check(block, mine, agent, only)
        with self._lock:
            self._idle.setdefault(server, []).append(worker)
        return answer

    def close(self) -> None:
        for worker in self._all:
            worker.close()

    def _take(self, server: RowServer) -> RowWorker:
        with self._lock:
            if idle := self._idle.get(server):
                return idle.pop()
        worker = self._make(server, self._rules)
        with self._lock:
            self._all.append(worker)
        return worker
