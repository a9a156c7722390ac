"""Runs many short programs: each in a process of its own, in one of a few sandboxes that are reused.

What a program left behind is removed before the next one starts; expected answers never enter the sandbox.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.pipe import Pipe, PipeEnded
from gym.sandbox.python_sandboxes import PROGRAM_FOLDER, ImageSource, PythonSandboxes, missing_packages, refuse_missing
from gym.sandbox.sandbox_handle import Sandbox
from gym.sandbox.science import IMAGE, PACKAGES
from gym.wire.failures import RolloutError

log = logging.getLogger("gym.sandbox")
PARTS: Final = ("framing", "limits", "supervise", "cleanup", "baseline", "program", "program_forkserver")
FORKSERVER: Final = tuple(f"gym.sandbox.guest.{name}" for name in PARTS)
HERE: Final = Path(__file__).with_name("guest")
BOOT: Final = """import json, os, struct, sys, types
def read(size):
    data = b""
    while len(data) < size:
        data += os.read(0, size - len(data)) or os._exit(0)
    return data
for name, text in json.loads(read(struct.unpack("!I", read(4))[0])):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), vars(module))
module.main()
"""
# The order in which sets are walked depends on the seed: with one seed, a program does the same everywhere.
BARE: Final = 'env -i PATH="$PATH" LANG=C.UTF-8 PYTHONHASHSEED=0'
COMMAND: Final = f"exec {BARE} python3 -s -c {shlex.quote(BOOT)} 2>/dev/null"
START_SECONDS = 60.0
MARGIN_SECONDS = 60.0
TRIES = 3
LIFE_SECONDS = 1800.0  # well below a sandbox's TTL
End = Literal["ok", "error", "time", "wall", "output", "broken"]


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """Limits of one program with one input."""

    cpu: float = 10.0  # seconds that it computes, and as many that it sleeps
    memory: int = 1 << 30  # address space
    output: int = 16 << 20

    @property
    def wall(self) -> float:
        """Seconds of wall time. Generous: only an overloaded machine reaches it."""
        return 20 * self.cpu + 60


@dataclass(frozen=True, slots=True)
class ProgramOutcome:
    """What became of one program with one input; all of it is the program's own word but for `end` and the times."""

    end: End
    stdout: str = ""
    value: str | None = None  # JSON, of a function's reply
    error: str = ""
    traceback: str = ""
    cpu: float = 0.0
    seconds: float = 0.0


class Programs:
    """A few sandboxes that are made when they are needed and stay. `aclose` when done."""

    def __init__(
        self,
        sandboxes: Sandboxes,
        *,
        source: ImageSource | None = None,
        image: str = "",
        max_sandboxes: int = 8,
        memory: int = 1 << 30,
        uses: int = 500,
        fresh: bool = False,
    ) -> None:
        self._sandboxes = sandboxes
        self._source = source or ImageSource(image=image or IMAGE)
        self._memory = memory
        self._uses = uses  # requests after which a sandbox is replaced
        self._fresh = fresh  # each rollout gets sandboxes of its own
        limits = {"memory": memory + (256 << 20), "pids": 128}
        self._pythons = PythonSandboxes(sandboxes, self._source, limits=limits)
        self._slots = asyncio.Semaphore(max_sandboxes)
        self._idle: deque[ProgramSandbox] = deque()
        self._all: set[ProgramSandbox] = set()

    @asynccontextmanager
    async def for_rollout(self) -> AsyncIterator[Programs]:
        """Runs the programs of one rollout: in any sandbox, or, with `fresh`, in one that no other rollout uses."""
        if not self._fresh:
            yield self
            return
        async with self._slots:
            own = Programs(self._sandboxes, source=self._source, max_sandboxes=1, memory=self._memory)
            own._pythons = self._pythons
            try:
                yield own
            finally:
                await asyncio.shield(own._drop_all())

    async def run(
        self, code: str, inputs: Sequence[str], *, fn: str | None = None, bounds: ProgramLimits, imports: str = ""
    ) -> list[ProgramOutcome]:
        """Runs the inputs in order, up to the first that fails. A program whose sandbox breaks three times has failed,
        if an empty program succeeds in such a sandbox. `imports` is the source with the imports, where it is not
        `code`."""
        body, deadline = request_of(code, inputs, fn, bounds), bounds.wall * len(inputs) + MARGIN_SECONDS
        async with self._slots:
            why = ""
            for attempt in range(TRIES):
                try:
                    return await self._attempt(body, deadline, imports or code, fresh=attempt > 0)
                except ProgramSandboxBroken as error:
                    why = str(error)
                    log.info("a sandbox ended under its program, attempt %d: %s", attempt + 1, why)
            await self._check_sandboxes(bounds)
            return [ProgramOutcome("broken", error=f"it ended the process that runs it: {why}")]

    async def begin(self) -> None:
        await self._pythons.begin()

    async def aclose(self) -> None:
        await self._pythons.aclose()
        await self._drop_all()

    async def _drop_all(self) -> None:
        for sandbox in tuple(self._all):
            await self._drop(sandbox)

    async def _check_sandboxes(self, bounds: ProgramLimits) -> None:
        """Raises when the sandboxes fail, and not the program in them: that is not a wrong answer."""
        try:
            (outcome,) = await self._attempt(request_of("", [""], None, bounds), bounds.wall, "", fresh=True)
            why = "" if outcome.end == "ok" else outcome.error or outcome.end
        except ProgramSandboxBroken as error:
            why = str(error)
        if why:
            raise RolloutError("sandbox", f"no program succeeds in such a sandbox: {why}", server="sandbox")

    async def _attempt(self, body: bytes, deadline: float, code: str, *, fresh: bool) -> list[ProgramOutcome]:
        sandbox = await (self._make() if fresh else self._take())
        reusable = True
        try:
            refuse_missing(missing_packages(code, sandbox.missing))
            reusable = False
            async with asyncio.timeout(deadline):
                outcomes = await sandbox.ask(body)
            reusable = not sandbox.differs and sandbox.uses < self._uses
            return outcomes
        except TimeoutError:
            late = f"a program's outcome did not come in {deadline:g} s"
            raise RolloutError("timeout", late, server="sandbox") from None
        finally:
            if reusable:
                self._idle.append(sandbox)
            else:
                await asyncio.shield(self._drop(sandbox))

    async def _take(self) -> ProgramSandbox:
        while self._idle:
            sandbox = self._idle.pop()
            if time.monotonic() < sandbox.expires_at:
                return sandbox
            await self._drop(sandbox)
        return await self._make()

    async def _make(self) -> ProgramSandbox:
        sandbox = ProgramSandbox(await self._pythons.create())
        self._all.add(sandbox)
        try:
            async with asyncio.timeout(START_SECONDS):
                await sandbox.start(self._sandboxes)
        except BaseException as error:
            await asyncio.shield(self._drop(sandbox))
            if isinstance(error, TimeoutError | ProgramSandboxBroken):
                why, image = str(error) or "it was silent", self._source.image or "its build"
                what = f"no Python began in a sandbox of {image}: {why}"
                raise RolloutError("sandbox", what, server="sandbox") from None
            raise
        return sandbox

    async def _drop(self, sandbox: ProgramSandbox) -> None:
        if sandbox in self._all:
            self._all.discard(sandbox)
            await sandbox.close()


class ProgramSandboxBroken(Exception):
    """The forkserver or the whole sandbox is gone, because of the program or by itself."""


class ProgramSandbox:
    """One sandbox with a forkserver for programs in it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._pipe: Pipe | None = None
        self._received = bytearray()
        self.uses = 0
        self.filtered = False
        self.differs = ""  # from what it was before any program ran in it
        self.missing: tuple[str, ...] = ()  # of `PACKAGES`: asked before any program ran in it
        self.expires_at = time.monotonic() + LIFE_SECONDS

    async def start(self, sandboxes: Sandboxes) -> None:
        self._pipe = await Pipe.open(sandboxes, self._sandbox.id, COMMAND)
        isolated = self._sandbox.info.provider != "subprocess"
        source = pack(FORKSERVER)
        settings = {"base": PROGRAM_FOLDER if isolated else "", "wanted": PACKAGES}
        await self._pipe.write(framed(source) + framed(json.dumps(settings).encode()))
        reply = await self._read()
        self.filtered, self.missing = bool(reply["walls"]), tuple(reply["lacks"])

    async def ask(self, body: bytes) -> list[ProgramOutcome]:
        try:
            return await self._ask(body)
        except RolloutError as error:
            if error.kind != "sandbox" or not error.retryable:
                raise
            raise ProgramSandboxBroken(error.message) from None

    async def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        await self._sandbox.delete()

    async def _ask(self, body: bytes) -> list[ProgramOutcome]:
        assert self._pipe is not None
        self.uses += 1
        outcomes: list[ProgramOutcome] = []
        await self._pipe.write(framed(body))
        while "done" not in (reply := await self._read()):
            if reply["end"] == "failed":
                raise ProgramSandboxBroken(reply["error"])
            outcomes.append(read_outcome(reply))
        self.differs = reply["differs"]
        if self.differs:
            log.info("a sandbox is thrown away after its program: %s", self.differs)
        if reply["broken"]:
            raise ProgramSandboxBroken("the process that ran it was ended")
        return outcomes

    async def _read(self) -> dict[str, Any]:
        size = struct.unpack("!I", await self._exactly(4))[0]
        reply: dict[str, Any] = json.loads(await self._exactly(size))
        return reply

    async def _exactly(self, size: int) -> bytes:
        assert self._pipe is not None
        while len(self._received) < size:
            try:
                self._received += await self._pipe.read()
            except PipeEnded as error:
                raise ProgramSandboxBroken(str(error)) from None
        data = bytes(self._received[:size])
        del self._received[:size]
        return data


def request_of(code: str, inputs: Sequence[str], fn: str | None, bounds: ProgramLimits) -> bytes:
    asked = {"code": code, "fn": fn, "inputs": list(inputs)}
    limits = {"cpu": bounds.cpu, "wall": bounds.wall, "memory": bounds.memory, "output": bounds.output}
    return json.dumps({**asked, **limits}).encode()


def pack(modules: Sequence[str], *, last: Path | None = None) -> bytes:
    """Modules of ours for `BOOT`, in the order in which they import each other; `main` of the last one runs."""
    texts = [(name, HERE.joinpath(f"{name.rpartition('.')[2]}.py").read_text()) for name in modules]
    return json.dumps([*texts, *([(last.stem, last.read_text())] if last else [])]).encode()


def framed(data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + data


def read_outcome(reply: dict[str, Any]) -> ProgramOutcome:
    value = reply.get("value")
    error = reply.get("error", "") or ("its reply is not a JSON value: " + reply["unfit"] if "unfit" in reply else "")
    times = {"cpu": reply["cpu"], "seconds": reply["seconds"]}
    return ProgramOutcome(reply["end"], reply["stdout"], value, error, reply.get("traceback", ""), **times)
