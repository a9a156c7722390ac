"""A process with the real openenv package and environments of all kinds, and a line to it that a test may cut."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from os import environ
from pathlib import Path

import pytest
import pytest_asyncio

HERE = Path(__file__).parent
START = HERE.parent / "lock" / "start.sh"


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address. The first start installs the package, which takes what it takes."""
    if not shutil.which(environ.get("UV", "uv")):
        pytest.skip("uv installs the environment's packages: `gym test openenv` brings it")
    with socket.socket() as reserved:  # bound and never listening: no one else gets the port
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        log = tmp_path_factory.mktemp("environments") / "log"
        with log.open("wb") as file:
            argv = ("sh", str(START), str(port), str(HERE / "odd"), "environments")
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            _wait(process, port, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"it ended with {process.returncode}:\n{log.read_text()[-2000:]}")


class Line:
    """Passes bytes on, until it is cut."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("http://").partition(":")
        self._target = (host, int(port))
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self.url = ""

    async def lay(self) -> None:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def cut(self) -> None:
        """As when the process is killed: connections end, and no new one is taken."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        self._writers += [writer, back]
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(_copy(source, sink))
            self._tasks.add(task)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    sink.close()


@pytest_asyncio.fixture
async def line(environments: str) -> AsyncIterator[Line]:
    one = Line(environments)
    await one.lay()
    yield one
    await one.cut()
