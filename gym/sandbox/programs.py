"""Short programs, many of them: each in a process of its own in one of a few sandboxes that stay.

What a program left behind is gone before the next one begins, and what it was compared with never was in there.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from gym.sandbox.client import Sandboxes
from gym.sandbox.handles import Sandbox
from gym.sandbox.pipe import Pipe, PipeEnded
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build

log = logging.getLogger("gym.sandbox")
PARTS: Final = ("framing", "walls", "watch", "cleaning", "program", "zygote")
ZYGOTE: Final = tuple(f"gym.sandbox.inside.{name}" for name in PARTS)
HERE: Final = Path(__file__).with_name("inside")
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
SWEPT: Final = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/run/lock", "/root", "/programs")
PLACE: Final = "/programs"
START_SECONDS = 60.0
MARGIN_SECONDS = 60.0
TRIES = 3
LIFE_SECONDS = 1800.0  # well within a sandbox's own time
End = Literal["ok", "error", "time", "wall", "output", "broken"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one program with one input."""

    cpu: float = 10.0  # seconds that it computes, and as many that it sleeps
    memory: int = 1 << 30  # address space
    output: int = 16 << 20

    @property
    def wall(self) -> float:
        """Far: only a machine that gives no time at all comes so far."""
        return 20 * self.cpu + 60


@dataclass(frozen=True, slots=True)
class Outcome:
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
        image: str,
        build: Build | None = None,
        most: int = 8,
        memory: int = 1 << 30,
        uses: int = 500,
    ) -> None:
        self._sandboxes = sandboxes
        self._source: dict[str, Any] = {"build": build} if build else {"image": image}
        self._memory = memory
        self._uses = uses  # requests after which a place is made anew
        self._places = asyncio.Semaphore(most)
        self._idle: deque[Place] = deque()
        self._all: set[Place] = set()

    async def run(self, code: str, inputs: Sequence[str], *, fn: str | None = None, bounds: Bounds) -> list[Outcome]:
        """In order, up to the first that does not end well. One whose place ends under it thrice has ended badly, where
        a program that does nothing ends well in such a place."""
        body, deadline = request_of(code, inputs, fn, bounds), bounds.wall * len(inputs) + MARGIN_SECONDS
        async with self._places:
            why = ""
            for attempt in range(TRIES):
                try:
                    return await self._attempt(body, deadline, fresh=attempt > 0)
                except PlaceBroken as error:
                    why = str(error)
                    log.info("a place ended under its program, attempt %d: %s", attempt + 1, why)
            await self._check_places(bounds)
            return [Outcome("broken", error=f"it ended what runs it: {why}")]

    async def aclose(self) -> None:
        for place in tuple(self._all):
            await self._drop(place)

    async def _check_places(self, bounds: Bounds) -> None:
        """Raises where it is the places that fail, and not what ran in them: that is nobody's wrong answer."""
        try:
            (outcome,) = await self._attempt(request_of("", [""], None, bounds), bounds.wall, fresh=True)
            why = "" if outcome.end == "ok" else outcome.error or outcome.end
        except PlaceBroken as error:
            why = str(error)
        if why:
            raise RolloutError("sandbox", f"no program ends well in such a sandbox: {why}", server="sandbox")

    async def _attempt(self, body: bytes, deadline: float, *, fresh: bool) -> list[Outcome]:
        place = await (self._make() if fresh else self._take())
        whole = False
        try:
            async with asyncio.timeout(deadline):
                outcomes = await place.ask(body)
            whole = place.uses < self._uses
            return outcomes
        except TimeoutError:
            late = f"a program's outcome did not come in {deadline:g} s"
            raise RolloutError("timeout", late, server="sandbox") from None
        finally:
            if whole:
                self._idle.append(place)
            else:
                await asyncio.shield(self._drop(place))

    async def _take(self) -> Place:
        while self._idle:
            place = self._idle.pop()
            if time.monotonic() < place.ends:
                return place
            await self._drop(place)
        return await self._make()

    async def _make(self) -> Place:
        place = Place(await self._create())
        self._all.add(place)
        try:
            async with asyncio.timeout(START_SECONDS):
                await place.start(self._sandboxes)
        except BaseException as error:
            await asyncio.shield(self._drop(place))
            if isinstance(error, TimeoutError | PlaceBroken):
                image = self._source.get("image", "its build")
                what = f"no Python began in a sandbox of {image}: {error or 'it was silent'}"
                raise RolloutError("sandbox", what, server="sandbox") from None
            raise
        return place

    async def _create(self) -> Sandbox:
        """Read-only but for memory; plain where plain processes are all there is."""
        limits = {"memory": self._memory + (256 << 20), "pids": 128}
        spec = {**self._source, "limits": limits}
        walled = {"read_only": True, "workdir": PLACE, "mounts": {PLACE: 64 << 20}}
        try:
            return await self._sandboxes.create(spec | walled)
        except RolloutError as error:
            if error.status != 422 or "plain processes" not in error.message:
                raise
            return await self._sandboxes.create(spec)

    async def _drop(self, place: Place) -> None:
        if place in self._all:
            self._all.discard(place)
            await place.close()


class PlaceBroken(Exception):
    """What forks the programs is gone, or the whole sandbox: by the program's doing, or by nobody's."""


class Place:
    """One sandbox with what forks the programs in it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._pipe: Pipe | None = None
        self._held = bytearray()
        self.uses = 0
        self.walled = False
        self.ends = time.monotonic() + LIFE_SECONDS

    async def start(self, sandboxes: Sandboxes) -> None:
        self._pipe = await Pipe.open(sandboxes, self._sandbox.id, COMMAND)
        isolated = self._sandbox.info.provider != "subprocess"
        source = pack(ZYGOTE)
        settings = {"base": PLACE if isolated else "", "sweep": SWEPT if isolated else ()}
        await self._pipe.write(framed(source) + framed(json.dumps(settings).encode()))
        self.walled = bool((await self._read()).get("walls"))

    async def ask(self, body: bytes) -> list[Outcome]:
        try:
            return await self._ask(body)
        except RolloutError as error:
            if error.kind != "sandbox" or not error.retryable:
                raise
            raise PlaceBroken(error.message) from None

    async def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        await self._sandbox.delete()

    async def _ask(self, body: bytes) -> list[Outcome]:
        assert self._pipe is not None
        self.uses += 1
        outcomes: list[Outcome] = []
        await self._pipe.write(framed(body))
        while "done" not in (told := await self._read()):
            if told["end"] == "trouble":
                raise PlaceBroken(told["error"])
            outcomes.append(read_outcome(told))
        if told["broken"]:
            raise PlaceBroken("its keeper was ended")
        return outcomes

    async def _read(self) -> dict[str, Any]:
        size = struct.unpack("!I", await self._exactly(4))[0]
        told: dict[str, Any] = json.loads(await self._exactly(size))
        return told

    async def _exactly(self, size: int) -> bytes:
        assert self._pipe is not None
        while len(self._held) < size:
            try:
                self._held += await self._pipe.read()
            except PipeEnded as error:
                raise PlaceBroken(str(error)) from None
        data = bytes(self._held[:size])
        del self._held[:size]
        return data


def request_of(code: str, inputs: Sequence[str], fn: str | None, bounds: Bounds) -> bytes:
    asked = {"code": code, "fn": fn, "inputs": list(inputs)}
    limits = {"cpu": bounds.cpu, "wall": bounds.wall, "memory": bounds.memory, "output": bounds.output}
    return json.dumps({**asked, **limits}).encode()


def pack(modules: Sequence[str], *, last: Path | None = None) -> bytes:
    """Modules of ours for `BOOT`, in the order in which they import each other; `main` of the last one runs."""
    texts = [(name, HERE.joinpath(f"{name.rpartition('.')[2]}.py").read_text()) for name in modules]
    return json.dumps([*texts, *([(last.stem, last.read_text())] if last else [])]).encode()


def framed(data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + data


def read_outcome(told: dict[str, Any]) -> Outcome:
    value = told.get("value")
    error = told.get("error", "") or ("its reply is no JSON value: " + told["unfit"] if "unfit" in told else "")
    times = {"cpu": told["cpu"], "seconds": told["seconds"]}
    return Outcome(told["end"], told["stdout"], value, error, told.get("traceback", ""), **times)
