"""A helper to speak to, local providers, and ways to see whether a process still runs."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gym.broker.channel.channel import PipeChannel, open_channel
from gym.broker.helper import find_helper
from gym.broker.provider import Provider, Tags
from gym.broker.providers.local import Bubblewrap, Subprocess
from gym.wire.sandbox import SandboxSpec

SPEC = SandboxSpec(image="host")


class Pipe:
    """A helper's input that outlives who writes to it, as a container's does."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.write = writer.write
        self.drain = writer.drain
        self.really_close = writer.close

    def close(self) -> None:
        """Only lets go of the channel."""


async def spawn_helper(folder: Path, *options: str, **asked: object) -> asyncio.subprocess.Process:
    helper = find_helper(platform.machine())
    return await asyncio.create_subprocess_exec(
        str(helper), *options, stdin=-1, stdout=-1, cwd=folder, start_new_session=True, limit=1 << 20
    )


async def stop_helper(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), 120)
    except TimeoutError:
        process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def speaking(folder: Path, *options: str) -> AsyncIterator[PipeChannel]:
    process = await spawn_helper(folder, *options)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        channel = await open_channel(process.stdout, process.stdin)
        try:
            yield channel
        finally:
            await channel.close()
    finally:
        await stop_helper(process)


def make_provider(name: str, folder: Path) -> Provider:
    if name == "bubblewrap":
        if shutil.which("bwrap") is None:
            pytest.skip("bubblewrap is not installed")
        return Bubblewrap(folder)
    return Subprocess(folder, isolates_nothing=True)


def tags(id: str, stack: str = "stack") -> Tags:
    return Tags(id, stack, "instance", "owner")


def runs(pid: int) -> bool:
    """A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


async def until(holds: Callable[[], bool], what: str, seconds: float = 120) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"waited {seconds:g} s until {what}")


async def until_written(path: Path) -> int:
    """The pid that a command writes to a file."""
    await until(lambda: path.is_file() and path.read_text().endswith("\n"), f"{path} is written")
    return int(path.read_text().split()[0])


def end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL)
