"""One rollout's Python: a sandbox that is made for the first piece of code, and an interpreter that stays in it."""

from __future__ import annotations

import asyncio
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gym.sandbox.broker_client import SandboxEnded, Sandboxes
from gym.sandbox.pipe import Pipe, PipeEnded
from gym.sandbox.python_sandboxes import PACKAGES, PROGRAM_FOLDER, PythonSandboxes, missing_packages, refuse_missing
from gym.sandbox.sandbox_handle import Sandbox
from gym.sandbox.short_programs import COMMAND, framed, pack
from gym.wire.failures import RolloutError

SOURCE: Final = Path(__file__).with_name("interpreter.py")
START_SECONDS = 60.0
GRACE_SECONDS = 10.0
LATE = 6


@dataclass(frozen=True, slots=True)
class Limits:
    seconds: float = 10.0  # that a piece of code computes; what sleeps may take LATE times as long
    memory: int = 1 << 30
    output: int = 16 << 10


class Session:
    """Pieces of code one after the other. `close` when done; a later piece starts a new interpreter."""

    def __init__(self, sandboxes: Sandboxes, pythons: PythonSandboxes, limits: Limits) -> None:
        self._sandboxes = sandboxes
        self._pythons = pythons
        self._lacks: tuple[str, ...] = ()
        self._limits = limits
        self._sandbox: Sandbox | None = None
        self._pipe: Pipe | None = None
        self._held = bytearray()
        self._turn = asyncio.Lock()

    async def run(self, code: str) -> dict[str, Any]:
        """What the tool answers. An interpreter that ended, or that cannot be interrupted, is replaced and says so."""
        async with self._turn:
            pipe = self._pipe or await self._begin()
            refuse_missing(missing_packages(code, self._lacks))
            late = self._limits.seconds * LATE + GRACE_SECONDS
            self._held.clear()
            try:
                async with asyncio.timeout(late):
                    if self._sandbox is not None:
                        await self._pythons.extend_in_use(self._sandbox)
                    await pipe.write(framed(json.dumps({"code": code}).encode()))
                    return shaped(await self._read(pipe))
            except PipeEnded as error:
                how = f"the code ended the interpreter ({error})"
            except SandboxEnded as error:
                self._end_pipe()
                self._sandbox = None
                return refusal(f"the code ended its sandbox ({error.message}); the variables are gone")
            except TimeoutError:
                how = "code timed-out"
            except ValueError:
                how = "the code spoke in the interpreter's name"
            except asyncio.CancelledError:
                self._end_pipe()  # where it stands is unknown from here on
                raise
            self._end_pipe()
            return refusal(f"{how}; a new one was started, and the variables are gone")

    async def close(self) -> None:
        self._end_pipe()
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.delete()

    async def _begin(self) -> Pipe:
        if self._sandbox is None:
            self._sandbox = await self._pythons.create()
        return await self._start(self._sandbox)

    async def _start(self, sandbox: Sandbox) -> Pipe:
        pipe = self._pipe = await Pipe.open(self._sandboxes, sandbox.id, COMMAND)
        self._held.clear()
        own = self._limits
        limits = {"seconds": own.seconds, "memory": own.memory, "output": own.output, "wanted": PACKAGES}
        limits["base"] = PROGRAM_FOLDER if sandbox.info.provider != "subprocess" else ""
        try:
            async with asyncio.timeout(START_SECONDS):
                await pipe.write(
                    framed(pack(["gym.sandbox.guest.framing"], last=SOURCE)) + framed(json.dumps(limits).encode())
                )
                self._lacks = tuple((await self._read(pipe))["lacks"])
        except (TimeoutError, PipeEnded, ValueError) as error:
            self._end_pipe()
            what = f"no Python began in a sandbox: {_why(error)}"
            raise RolloutError("sandbox", what, server="sandbox") from None
        return pipe

    async def _read(self, pipe: Pipe) -> Any:
        size = struct.unpack("!I", await self._exactly(pipe, 4))[0]
        if size > 4 * self._limits.output + (1 << 20):
            raise ValueError
        return json.loads(await self._exactly(pipe, size))

    async def _exactly(self, pipe: Pipe, size: int) -> bytes:
        while len(self._held) < size:
            self._held += await pipe.read()
        data = bytes(self._held[:size])
        del self._held[:size]
        return data

    def _end_pipe(self) -> None:
        pipe, self._pipe = self._pipe, None
        self._held.clear()
        if pipe is not None:
            pipe.close()


def shaped(reply: Any) -> dict[str, Any]:
    """The tool's fields, in its order."""
    if not isinstance(reply, dict):
        raise ValueError
    texts = {key: reply.get(key) if isinstance(reply.get(key), str) else "" for key in ("stdout", "stderr")}
    other = {key: reply.get(key) if isinstance(reply.get(key), str) else None for key in ("error_message", "result")}
    return {"success": reply.get("success") is True, **texts, **other}


def refusal(message: str) -> dict[str, Any]:
    return {"success": False, "stdout": "", "stderr": "", "error_message": message, "result": None}


def _why(error: Exception) -> str:
    return str(error) or (f"it was silent for {START_SECONDS:g} s" if isinstance(error, TimeoutError) else "it ended")
