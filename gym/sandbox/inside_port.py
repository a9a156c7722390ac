"""A port inside a sandbox without network: each connection to it arrives here, over the sandbox's channel.

So a program inside reaches what its server serves to it, and nothing else: no address, no route, no grant of a network.
"""

from __future__ import annotations

import asyncio
import logging
import random
import shlex
from collections.abc import Callable
from typing import Final, Self

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.sandbox.pipe import Pipe, PipeEnded
from gym.sandbox.relay import Relay, RelayConnection, relay_argv
from gym.wire.failures import RolloutError

log = logging.getLogger("gym.sandbox")
PORT: Final = 8787
LISTEN_SECONDS: Final = 60.0
RESTARTS: Final = 20  # of a relay that ended: whatever runs in the sandbox may end it
PAUSE: Final = 0.1
GONE: Final = (404, 410)
OnConnection = Callable[[RelayConnection], None]


class PipedRelay:
    """Fits `gym.sandbox.relay.RelayCommand`: a relay at the other end of a pipe."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self.broken: RolloutError | None = None  # the pipe, and not what runs in the sandbox
        self.take: Callable[[int, bytes], None] = lambda _stream, _data: None

    async def write(self, data: bytes) -> None:
        try:
            await self._pipe.write(data)
        except RolloutError as error:
            self.broken = error
            raise

    async def wait(self) -> str:
        """How its command ended."""
        while True:
            try:
                self.take(1, await self._pipe.read())
            except PipeEnded as ended:
                return str(ended)
            except RolloutError as error:
                self.broken = error
                raise


class InsidePort:
    """`async with` closes it. `url` is where programs of the sandbox find it."""

    def __init__(self, sandboxes: Sandboxes, sandbox: Sandbox, on_connection: OnConnection) -> None:
        self._sandboxes = sandboxes
        self._sandbox = sandbox
        self._on_connection = on_connection
        # Loopback, out of the way of what a task itself listens on.
        self.address = f"127.{random.randint(1, 254)}.{random.randint(0, 255)}.{random.randint(1, 254)}"
        self._task: asyncio.Task[None] | None = None
        self.error: RolloutError | None = None  # why nothing listens any more, where the infrastructure is to blame

    @property
    def url(self) -> str:
        return f"http://{self.address}:{PORT}"

    async def __aenter__(self) -> Self:
        listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(listening), name=f"port-{self._sandbox.id}")
        try:
            async with asyncio.timeout(LISTEN_SECONDS):
                await listening
        except TimeoutError:
            await self.aclose()
            what = f"nothing listened in sandbox {self._sandbox.id} within {LISTEN_SECONDS:g} s"
            raise RolloutError("sandbox", what, server="sandbox") from None
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def accept(self, port_index: int, connection: RelayConnection) -> None:
        self._on_connection(connection)

    def ask(self, port_index: int, data: bytes, answer: Callable[[bytes], None]) -> None:
        """No datagrams."""

    async def _keep(self, listening: asyncio.Future[None]) -> None:
        for _ in range(RESTARTS):
            self.error = await self._run(listening)
            if not listening.done():
                what = "the relay in the sandbox ended at once: it needs the provider `docker` or `bubblewrap`"
                listening.set_exception(self.error or RolloutError("sandbox", what, server="sandbox"))
                return
            if self.error is not None and self.error.status in GONE:
                return
            await asyncio.sleep(PAUSE)
        log.info("sandbox %s: no port any more: its relay ended %d times", self._sandbox.id, RESTARTS)

    async def _run(self, listening: asyncio.Future[None]) -> RolloutError | None:
        """Until the relay ends; the error of the connection to it, or None where something inside ended it."""
        argv = relay_argv(self.address, (("tcp", PORT),))
        try:
            pipe = await Pipe.open(self._sandboxes, self._sandbox.route_id, f"exec {shlex.join(argv)}")
        except RolloutError as error:
            return error
        command, relay = PipedRelay(pipe), Relay(self)
        command.take = relay.take
        relay.listening.add_done_callback(lambda future: _tell(future, listening))
        try:
            await relay.run(command)
        except RolloutError:
            return command.broken
        finally:
            pipe.close()
        return None


def _tell(future: asyncio.Future[tuple[bool, ...]], listening: asyncio.Future[None]) -> None:
    if future.cancelled() or listening.done():
        return
    if all(future.result()):
        listening.set_result(None)
    else:
        what = f"the relay in the sandbox could not listen on port {PORT}"
        listening.set_exception(RolloutError("sandbox", what, server="sandbox"))
