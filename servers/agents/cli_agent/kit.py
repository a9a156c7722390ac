"""The program as one folder, taken out of an image once and put into the sandbox of each rollout."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path

from program import ProgramConfig

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Limits, SandboxSpec

MAX_BYTES = 4 << 30
SECONDS = 3600.0  # to fetch or build the image


class ProgramKit:
    """Of one server; the first rollout waits for it."""

    def __init__(self, sandboxes: Sandboxes, program: ProgramConfig) -> None:
        self._sandboxes, self._program = sandboxes, program
        self._file = Path(tempfile.mkdtemp(prefix="gym-kit-")) / "program.tar"
        self._lock = asyncio.Lock()
        self._ready = False

    async def put_into(self, sandbox: Sandbox) -> None:
        async with self._lock:
            if not self._ready:
                await self._take()
                self._ready = True
        await sandbox.make_dir(self._program.folder)
        await sandbox.put_tree(self._program.folder, self._file)

    async def _take(self) -> None:
        spec = SandboxSpec(**self._program.source(), limits=Limits(memory=1 << 30), ttl=SECONDS)
        try:
            async with await self._sandboxes.create(spec, timeout=SECONDS) as sandbox:
                await sandbox.get_tar_to(self._program.folder, self._file, max_bytes=MAX_BYTES)
        except RolloutError as error:
            what = f"the program could not be had from its image: {error.message}"
            raise RolloutError(error.kind, what, server=error.server, retryable=error.retryable) from error

    async def aclose(self) -> None:
        with suppress(OSError):
            await asyncio.to_thread(self._file.unlink, missing_ok=True)
            await asyncio.to_thread(self._file.parent.rmdir)
