"""Servers of one interpreter start as forks of a process that has imported the SDK: in milliseconds, its pages shared.

The only server of an interpreter starts by itself; the parent is started where there are two, for all of them.
Where anything is amiss with it, servers start by themselves, as everywhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from gym import labels
from gym.runtime.identity import Identity
from gym.runtime.local.child_process import (
    Forked,
    ProcessSpec,
    Reaper,
    Remember,
    inherited_files,
    let_go,
    nameless_file,
)

FORKABLE: Final = ("gym.server.serve", "gym.console.__main__")  # each has a main() and reads its environment there
START_VARIABLES: Final = ("PYTHON", "COVERAGE_", "LD_", "MALLOC_", "GLIBC_", "OPENSSL_", "LANG", "LC_", "TZ")
ROOM_OF_NAME: Final = 120  # a fork writes its replica's name over these
ROOM_OF_COMMAND: Final = 120
READY_SECONDS: Final = 60.0  # a machine under load imports the SDK for that long
FORK_SECONDS: Final = 10.0

Key = tuple[str, frozenset[tuple[str, str]]]  # the interpreter, and what it reads at its start only

log = logging.getLogger("gym.supervisor")


class ForkParents:
    """One for each interpreter and what it reads at its start."""

    def __init__(self, reaper: Reaper, folder: Path) -> None:
        self._reaper = reaper
        self._folder = folder
        self._parents: dict[Key, _ForkParent] = {}
        self._wanted: defaultdict[Key, set[str]] = defaultdict(set)

    def expect(self, spec: ProcessSpec) -> None:
        """It will be started soon: then the first of several need not start by itself."""
        if (key := _key(spec)) is not None:
            self._wanted[key].add(spec.id)

    async def start(
        self, spec: ProcessSpec, listener: socket.socket | None, remember: Remember, *, tied: bool
    ) -> Forked | None:
        """None: it has to start by itself."""
        key = _key(spec)
        if key is None:
            return None
        self._wanted[key].add(spec.id)
        if len(self._wanted[key]) < 2:
            return None
        parent = self._parents.get(key)
        if parent is None or (parent.lost and parent.was_ready):
            parent = self._parents[key] = _ForkParent(self._reaper, self._folder, spec)
        return await parent.start(spec, listener, remember, tied=tied)

    async def close(self) -> None:
        """They end, and their forks do not."""
        for parent in self._parents.values():
            await parent.close()


class _ForkParent:
    """`python -m gym.server.fork_parent`, and what it has reported of its forks."""

    def __init__(self, reaper: Reaper, folder: Path, spec: ProcessSpec) -> None:
        self.lost = False
        self.was_ready = False
        self._reaper = reaper
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[bool] = self._loop.create_future()
        self._ordered: deque[asyncio.Future[tuple[int, asyncio.Future[int]]]] = deque()
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._forks: dict[int, Forked] = {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [spec.argv[0], "-P", "-m", "gym.server.fork_parent", " " * ROOM_OF_COMMAND],
                cwd=folder,
                env={**_start_variables(spec), **_marked(spec)},
                stdin=theirs.fileno(),
            )
        self._exited = reaper.exit_of(process)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._read)

    async def start(
        self, spec: ProcessSpec, listener: socket.socket | None, remember: Remember, *, tied: bool
    ) -> Forked | None:
        with contextlib.ExitStack() as files:
            output = files.enter_context(spec.log.open("ab"))
            waits, goes = os.pipe()
            go = files.enter_context(os.fdopen(goes, "wb"))
            files.enter_context(os.fdopen(waits, "rb"))
            targets = {0: waits, 1: output.fileno(), 2: output.fileno(), **inherited_files(spec, listener, files)}
            text = orjson.dumps({"argv": spec.argv[3:], "env": dict(spec.env), "cwd": str(spec.cwd)})
            document = files.enter_context(nameless_file(text))
            try:
                pid, ended = await self._order(
                    {"targets": [*targets], "tied": tied}, [document.fileno(), *targets.values()]
                )
            except (OSError, TimeoutError) as error:
                log.warning("%s starts by itself: its fork parent did not answer (%s)", spec.id, error)
                self._lose()
                return None
            found = let_go(pid, go, output, spec, remember)
            return self._fork_of(spec, found or Identity(pid=pid, start=""), ended)

    async def _order(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> tuple[int, asyncio.Future[int]]:
        """The pid of the fork, and how it will have ended."""
        async with asyncio.timeout(READY_SECONDS):
            await asyncio.shield(self._ready)
        if self.lost:
            raise ConnectionResetError("it has ended")
        started: asyncio.Future[tuple[int, asyncio.Future[int]]] = self._loop.create_future()
        self._ordered.append(started)
        socket.send_fds(self._socket, [orjson.dumps(message)], [*descriptors])
        async with asyncio.timeout(FORK_SECONDS):
            return await started

    def _fork_of(self, spec: ProcessSpec, identity: Identity, ended: asyncio.Future[int]) -> Forked:
        fork = Forked(identity, f"{labels.ENV_DISCOVERY}={spec.env[labels.ENV_DISCOVERY]}", ended)
        if ended.done():
            fork.returncode = ended.result()
        else:
            self._forks[identity.pid] = fork
            if self.lost:
                self._reaper.look_after(fork, ended)
        return fork

    async def close(self) -> None:
        self._lose()
        await self._exited

    def _read(self) -> None:
        try:
            text = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            text = b""
        if not text:
            self._lose()
            return
        self._hear(orjson.loads(text))

    def _hear(self, message: Mapping[str, Any]) -> None:
        if "ready" in message:
            self.was_ready = True
            self._ready.set_result(True)
        elif "started" in message:
            pid = message["started"]
            self._exits[pid] = self._loop.create_future()
            started = self._ordered.popleft()
            if not started.done():
                started.set_result((pid, self._exits[pid]))
        else:
            ended = self._exits.pop(message["ended"])
            ended.set_result(message["code"])
            if (fork := self._forks.pop(message["ended"], None)) is not None:
                fork.returncode = message["code"]

    def _lose(self) -> None:
        """It has ended, or shall. Its forks live on, and their end is found by looking."""
        if self.lost:
            return
        self.lost = True
        self._loop.remove_reader(self._socket)
        self._socket.close()
        _fail(self._ready)
        for waiting in self._ordered:
            _fail(waiting)
        for fork in self._forks.values():
            self._reaper.look_after(fork, fork.ended)


def _fail(waiting: asyncio.Future[Any]) -> None:
    if not waiting.done():
        waiting.set_exception(ConnectionResetError("it has ended"))
        waiting.exception()  # it may be that no start waits for it


def _key(spec: ProcessSpec) -> Key | None:
    forkable = (
        sys.platform == "linux"
        and spec.argv[1:3] == ("-P", "-m")
        and spec.argv[3] in FORKABLE
        and labels.ENV_DISCOVERY in spec.env
        and len(spec.env.get(labels.ENV_REPLICA, "")) < ROOM_OF_NAME
    )
    return (spec.argv[0], frozenset(_start_variables(spec).items())) if forkable else None


def _start_variables(spec: ProcessSpec) -> dict[str, str]:
    """An interpreter and its C library look at these when they start, and never again."""
    return {name: value for name, value in spec.env.items() if name.startswith(START_VARIABLES)}


def _marked(spec: ProcessSpec) -> dict[str, str]:
    """What shows the processes of a stack to others; nothing else of a server's environment is the parent's."""
    return {labels.ENV_DISCOVERY: spec.env[labels.ENV_DISCOVERY], labels.ENV_REPLICA: " " * ROOM_OF_NAME}
