"""Addresses of names: each name is asked for once at a time, and a name that no server answers for delays no other.

A loop asks in four threads of its own. A container that is gone has no name in the engine's DNS, which passes the
question on to a name server outside; where that one is silent, a question takes 8 seconds and more. Asked for again and
again such names held all four threads, and no other name was found.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, Final

from gym.wire.addresses import is_address

AT_ONCE: Final = 64


class NameLookups:
    """Questions of one loop. One that is still open has no second: who asks meanwhile gets its answer."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._open: dict[tuple[Callable[..., Any], str], asyncio.Task[Any]] = {}

    async def find(self, host: str) -> tuple[str, ...]:
        """Its addresses, in the resolver's order; an address is its own. `OSError` where it has none."""
        return (host,) if is_literal(host) else await self._ask(_addresses, host)

    async def name_of(self, address: str) -> str:
        """The name of an address, whole. `OSError` where it has none."""
        found: str = await self._ask(_name, address)
        return found

    async def _ask(self, question: Callable[[str], Any], text: str) -> Any:
        key = question, text
        task = self._open.get(key)
        if task is None:
            task = self._open[key] = asyncio.get_running_loop().create_task(self._answer(question, text))
            task.add_done_callback(lambda _: self._open.pop(key))
        await asyncio.wait([task])  # a caller that gives up costs the others nothing
        found = task.result()
        if isinstance(found, Exception):
            raise type(found)(*found.args)  # of their own for each: it gets a traceback
        return found

    async def _answer(self, question: Callable[[str], Any], text: str) -> Any:
        async with self._room:
            return await _in_thread(question, text)


@lru_cache(maxsize=4096)
def is_literal(host: str) -> bool:
    return is_address(host)


async def _in_thread(question: Callable[[str], Any], text: str) -> Any:
    """What it returns or raises."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(found: Any) -> None:
        if not answer.done():
            answer.set_result(found)

    def ask() -> None:
        try:
            found = question(text)
        except Exception as error:  # noqa: BLE001 (raised where it was asked for)
            found = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, found)

    _threads_of(os.getpid()).run(ask)
    return await answer


class DaemonThreads:
    """As many as are at work at once. They end with the process: an executor's would have it wait for a name server."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    def run(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._work, daemon=True, name="names").start()

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            self._idle.release()


@lru_cache(maxsize=1)
def _threads_of(pid: int) -> DaemonThreads:
    """A fork has none of its parent's."""
    return DaemonThreads()


def _addresses(host: str) -> tuple[str, ...]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(one[4][0]) for one in found))


def _name(address: str) -> str:
    return socket.getnameinfo((address, 0), socket.NI_NAMEREQD)[0]
