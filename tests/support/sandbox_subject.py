"""A sandbox behind a broker's HTTP as the conformance suite wants one; what only a provider has is skipped by name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gym.broker.conformance.harness import Factory, Skipped
from gym.broker.provider import OnOutput
from gym.sandbox.broker_client import Sandbox, Sandboxes, SandboxJob
from gym.wire.sandbox import ExecRequest, ExecResult, FileInfo, SandboxSpec


class ClientProcess:
    """A job. Its end and its output are heard in the background, as a provider's process hears them."""

    def __init__(self, job: SandboxJob, on_output: OnOutput | None) -> None:
        self._job = job
        self._waiting = asyncio.ensure_future(job.wait(600))
        self._following = asyncio.ensure_future(self._follow(on_output)) if on_output else None

    @property
    def running(self) -> bool:
        return not self._waiting.done()

    async def write(self, data: bytes) -> None:
        await self._job.write(data)

    async def close_stdin(self) -> None:
        await self._job.write(close=True)

    async def resize(self, rows: int, columns: int) -> None:
        raise Skipped("a terminal is a WebSocket, tested by itself")

    async def kill(self, signal: int = 9) -> None:
        await self._job.kill(signal)

    async def wait(self) -> ExecResult:
        if self._following is not None:
            await self._following
        return await asyncio.shield(self._waiting)

    def result_so_far(self) -> ExecResult:
        return self._job.info.result or ExecResult()

    async def peek(self) -> ExecResult:
        return (await self._job.inspect()).result or ExecResult()

    def hold(self) -> None: ...

    def release(self) -> None: ...

    async def _follow(self, on_output: OnOutput) -> None:
        async for stream, data in self._job.follow():
            on_output(stream, data)


class ClientSandbox:
    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.list_below = sandbox.list
        self.remove = sandbox.delete
        self.stat = sandbox.stat
        self.make_dir = sandbox.make_dir

    async def exec(self, request: ExecRequest, on_output: OnOutput | None = None) -> ExecResult:
        return await self.sandbox.exec(request, on_output=on_output)

    async def start(
        self, request: ExecRequest, on_output: OnOutput | None = None, *, tty: tuple[int, int] | None = None
    ) -> ClientProcess:
        if tty is not None:
            raise Skipped("a terminal is a WebSocket, tested by itself")
        return ClientProcess(await self.sandbox.start_job(request), on_output)

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None, append: bool = False) -> None:
        await self.sandbox.put(path, data, mode=mode, append=append)

    async def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        return await self.sandbox.get(path, offset=offset, length=length, max_bytes=1 << 30)

    async def list(self, path: str, *, recursive: bool = False) -> Sequence[FileInfo]:
        return await self.list_below(path, recursive=recursive)

    async def make_link(self, path: str, target: str) -> None:
        made = await self.sandbox.exec(["ln", "-s", target, path])
        assert made.ok, made.stderr.text

    async def remove_path(self, path: str, *, recursive: bool = False) -> None:
        await self.sandbox.remove(path, recursive=recursive)

    async def set_times(self, path: str, mtime: float) -> None:
        raise Skipped("times are set by put_tree")

    async def fork(self) -> ClientSandbox:
        return ClientSandbox(await self.sandbox.fork())


def make_factory(sandboxes: Sandboxes) -> Factory:
    async def make(spec: SandboxSpec) -> ClientSandbox:
        return ClientSandbox(await sandboxes.create(spec))

    return make
