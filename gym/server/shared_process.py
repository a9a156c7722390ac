"""Several instances of one server in one process: each has its own settings, listener and app; the event loop is one.

`GYM_SHARED` names a JSON file with the variables of each, as it would have them in a process of its own.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from gym import labels
from gym.errors import GymError, UserError
from gym.server.asgi import App, Receive, Scope, Send
from gym.server.config import Settings, read_settings

SERVED: Final = ContextVar("SERVED", default="")  # the instance that this task works for
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(instance)s%(message)s"
MAX_INSTANCES: Final = 1000
RECEIVED: Final = "fds:"  # of GYM_LISTEN, where the listeners are sent down a socket

log = logging.getLogger("gym.server")


@dataclass(frozen=True)
class Hosted:
    """One instance of a process: what serves it, and where."""

    app: Any
    settings: Settings
    listener: socket.socket

    @property
    def port(self) -> int:
        address = self.listener.getsockname()
        return int(address[1]) if isinstance(address, tuple) else 0


class SharedApp:
    """ASGI: passes a request on to the instance whose port it came to. All start before any of them serves."""

    def __init__(self, hosted: Sequence[tuple[Hosted, App]]) -> None:
        """Each with the app that its requests pass through first."""
        self._hosted = [one for one, _ in hosted]
        self._by_port = {one.port: (one.settings.name, app) for one, app in hosted}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        name, app = self._by_port[scope["server"][1]]
        SERVED.set(name)  # the task is this request's
        await app(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        begun: list[Hosted] = []
        for one in self._hosted:
            with serving(one.settings.name):
                if not await one.app.starts():
                    await _stop(begun)
                    await send({"type": "lifespan.startup.failed", "message": ""})
                    return
            begun.append(one)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await _stop(begun)
        await send({"type": "lifespan.shutdown.complete"})


class NamingFilter(logging.Filter):
    """Each line of the one log says which instance it is of."""

    def filter(self, record: logging.LogRecord) -> bool:
        name = SERVED.get()
        record.instance = f"{name}: " if name else ""
        return True


def name_log_lines(logger: logging.Logger) -> None:
    for handler in logger.handlers:
        handler.setFormatter(logging.Formatter(LOG_FORMAT))
        handler.addFilter(NamingFilter())


@contextmanager
def serving(name: str) -> Iterator[None]:
    token = SERVED.set(name)
    try:
        yield
    finally:
        SERVED.reset(token)


def read_shared(path: Path, environ: Mapping[str, str]) -> list[Settings]:
    """Of each instance: the process's variables with its own over them."""
    try:
        own = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise UserError(f"{labels.ENV_SHARED}={path} cannot be read: {error}", "start it with `gym up`") from None
    return [replace(read_settings({**environ, **variables}), instances=len(own)) for variables in own]


def configured_apps(app: Any, settings: Sequence[Settings]) -> list[Any]:
    """One app an instance, made of the one module they run: of a `ServerApp`, which the broker need not load."""
    if not hasattr(app, "hosted"):
        what = f"`app` is a {type(app).__name__}; several instances of it cannot live in one process"
        raise UserError(what, "end the file with `app = MyServer.app()`, or write `share: false`")
    return [app.hosted(one) for one in settings]


def receive_listeners(where: str, count: int) -> list[socket.socket]:
    """`fds:3`: what the local runtime has sent down the socket that is our descriptor 3, one for each instance."""
    number = where.removeprefix(RECEIVED)
    if not where.startswith(RECEIVED) or not number.isdecimal():
        raise UserError(f"{labels.ENV_LISTEN}={where} names no socket with listeners", "start it with `gym up`")
    found: list[socket.socket] = []
    with socket.socket(fileno=int(number)) as source:
        while len(found) < count:
            data, numbers, _, _ = socket.recv_fds(source, 1, MAX_INSTANCES)
            if not data:
                raise GymError(f"{len(found)} of {count} listening sockets came: start it with `gym up`")
            found += [socket.socket(fileno=one) for one in numbers]
    return found


async def _stop(hosted: Sequence[Hosted]) -> None:
    """Each of them, whatever the others' stop raises."""
    for one in reversed(hosted):
        with serving(one.settings.name):
            try:
                await one.app.stop()
            except Exception as error:  # noqa: BLE001 (an author's stop())
                log.error("its stop failed", exc_info=error)
