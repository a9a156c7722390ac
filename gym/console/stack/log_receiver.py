"""Receives what the servers of a stack of containers print, and keeps the end of it: a file for each replica.

The engine has the logs, and who can ask it for one can ask it for anything: so servers send copies, and the console
alone sees these files. A sender is who its address in the stack's network says; containers cannot send by another's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from gym.console.stack.log_tails import SUFFIX, TAIL_BYTES
from gym.files import append_end
from gym.wire.stack_names import CONSOLE

FLUSH_SECONDS: Final = 0.3
MAX_WAITING: Final = 256 * 1024  # bytes of a sender between two writes; what is more is left out
MAX_UNKNOWN: Final = 64  # senders whose names are not known yet
OWN_NAME: Final = {"127.0.0.1": CONSOLE}
LEFT_OUT: Final = b"... lines left out: more came at once than the console keeps\n"


class LogReceiver(asyncio.DatagramProtocol):
    def __init__(self, folder: Path, own: Mapping[str, str] = OWN_NAME) -> None:
        """`own`: the console's own address and name."""
        self._folder = folder
        self._own = own
        self._names = dict(own)
        self._waiting: dict[str, bytearray] = {}

    def name_senders(self, names: Mapping[str, str]) -> None:
        """Address -> replica, as it is now."""
        self._names = {**names, **self._own}

    @asynccontextmanager
    async def receiving(self, host: str, port: int) -> AsyncIterator[int]:
        """Yields the port."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(host, port))
        writing = loop.create_task(self._write_for_ever(), name="logs")
        try:
            yield int(transport.get_extra_info("sockname")[1])
        finally:
            transport.close()
            writing.cancel()
            await asyncio.wait([writing])

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        sender = addr[0]
        if not data:  # who asks whether anyone listens
            self._transport.sendto(b".", addr)
            return
        waiting = self._waiting.get(sender)
        if waiting is None:
            if len(self._waiting) >= MAX_UNKNOWN + len(self._names):
                self._waiting.pop(next(iter(self._waiting)))
            waiting = self._waiting[sender] = bytearray()
        if len(waiting) + len(data) <= MAX_WAITING:
            waiting += data
        elif not waiting.endswith(LEFT_OUT):
            waiting += LEFT_OUT

    async def _write_for_ever(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            here = [one for one in self._waiting if one in self._names]
            if known := {self._names[one]: bytes(self._waiting.pop(one)) for one in here}:
                await asyncio.to_thread(self._append, known)

    def _append(self, texts: Mapping[str, bytes]) -> None:
        """A full disk ends no console: the engine still has the logs."""
        for name, text in texts.items():
            with suppress(OSError):
                append_end(self._folder / f"{name}{SUFFIX}", text, TAIL_BYTES)
