"""`python -m gym.server.serve [app.py]`: runs the ASGI app named `app` of a file, one process, drained on SIGTERM."""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # imports leave next to no garbage, and to look for it takes an eighth of their time

import asyncio
import importlib.util
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, MethodType
from typing import TYPE_CHECKING, Any

import uvicorn

from gym import labels
from gym.errors import GymError, UserError
from gym.http.keepalive import keep_alive
from gym.http.open_files import OPEN_FILES, raise_limit
from gym.rare_collections import RareCollections
from gym.server.blocked_replies import answer_waiting, failure_of_blocked, failure_of_others, refuse_callers
from gym.server.config import Settings, read_settings
from gym.server.one_write import OneWriteProtocol
from gym.server.own_secrets import OwnSecrets
from gym.server.prompt_server import PromptServer
from gym.server.refusing import PROGRAMS, Refusing, Rules
from gym.server.shared_process import (
    RECEIVED,
    Hosted,
    SharedApp,
    configured_apps,
    name_log_lines,
    read_shared,
    receive_listeners,
)
from gym.server.watchdog import Blocked, Watchdog

if TYPE_CHECKING:
    from gym.server.line_copies import LineSender

log = logging.getLogger("gym.server")

BACKLOG = 65_535  # the kernel's own limit holds (net.core.somaxconn, 4096): thousands of callers may come at once
ACCEPTED_EACH_TURN = 64  # callers; more than requests begin in a turn
KEEP_ALIVE_SECONDS = 75  # longer than any client of ours keeps an idle connection: it is never closed under a request

IDLE_SECONDS = 0.5  # without another request: then a client that keeps its connection is not busy


def main(argv: Sequence[str] | None = None) -> int:
    gc.enable()
    arguments = list(sys.argv[1:] if argv is None else argv)
    sender = _copy_output(os.environ.get(labels.ENV_LOG_COPIES, ""))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    secrets = OwnSecrets()
    path = Path(arguments[0] if arguments else "app.py")
    try:
        if shared := os.environ.get(labels.ENV_SHARED):
            run_shared(path, read_shared(Path(shared), os.environ), os.environ, sender)
            return 0
        settings = read_settings(os.environ)
        secrets = OwnSecrets.of(settings, os.environ)
        secrets.mask_logs(logging.getLogger())
        if sender is not None:
            sender.mask = secrets.mask
        app = load_app(path)
        run_app(app, settings)
    except GymError as error:
        sys.stderr.write(f"{secrets.mask(str(error))}\n")
        return 1
    return 0


def _copy_output(where: str) -> LineSender | None:
    if not where:
        return None
    from gym.server.line_copies import copy_output  # noqa: PLC0415 (containers alone pay for it)

    return copy_output(where)


def run_shared(
    path: Path, settings: Sequence[Settings], environ: Mapping[str, str], sender: LineSender | None = None
) -> None:
    """Several instances of one module. None of them has a secret: an instance with one has its own process."""
    name_log_lines(logging.getLogger())
    secrets = OwnSecrets.of(settings[0], environ)
    secrets.mask_logs(logging.getLogger())
    if sender is not None:
        sender.mask = secrets.mask
    apps = configured_apps(load_app(path), settings)
    where = environ.get(labels.ENV_LISTEN, "")
    given = receive_listeners(where, len(apps)) if where.startswith(RECEIVED) else None
    listeners = given or [listen(one.listen) for one in settings]  # in a container each has a port of its own
    hosted = [Hosted(*each) for each in zip(apps, settings, listeners, strict=True)]
    app = SharedApp([(one, _refusing(one, PROGRAMS)) for one in hosted])
    _run(app, hosted, name=environ.get(labels.ENV_REPLICA, ""))


def load_app(path: Path) -> Any:
    """The `app` of a file; its folder is importable, as when the file is run as a script."""
    if not path.is_file():
        raise UserError(f"no {path.name} in {path.resolve().parent}", "write one that ends with `app = MyServer.app()`")
    from gym.server.hidden_gym import refuse_openai_gym  # noqa: PLC0415 (a broker loads no file)

    refuse_openai_gym()
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location("app", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["app"] = module
    try:
        spec.loader.exec_module(module)
    except GymError:
        raise
    except Exception as error:
        raise _why_not_imported(error, path) from error
    app = getattr(module, "app", None)
    if app is None:
        raise UserError(f"{path} defines no `app`", "end it with `app = MyServer.app()`")
    if isinstance(app, type | MethodType):
        from gym.server.broken_app import refuse_no_app  # noqa: PLC0415 (an app is seldom one of these)

        refuse_no_app(app, path)
    return app


def _why_not_imported(error: Exception, path: Path) -> UserError:
    from gym.server.broken_app import broken_app  # noqa: PLC0415 (when one is)
    from gym.server.missing_library import missing_library  # noqa: PLC0415 (when one is)

    lacking = missing_library(error, path) if isinstance(error, ImportError) else None
    return lacking or broken_app(error, path)


def run_app(
    app: Any,
    settings: Settings,
    *,
    ws: Any = "none",
    make_server: Callable[[uvicorn.Config], uvicorn.Server] | None = None,
    rules: Rules = PROGRAMS,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is in flight, at most `drain_seconds` long."""
    hosted = Hosted(app, settings, listen(settings.listen))
    _run(_refusing(hosted, rules), [hosted], name=settings.name, ws=ws, make_server=make_server)


def _run(
    app: Any,
    hosted: Sequence[Hosted],
    *,
    name: str,
    ws: Any = "none",
    make_server: Callable[[uvicorn.Config], uvicorn.Server] | None = None,
) -> None:
    """All that are hosted drain together."""
    for one in hosted:
        keep_alive(one.listener)  # a caller that vanished is noticed, and what was done for it is cancelled
    settings = hosted[0].settings
    config = uvicorn.Config(
        app,
        interface="asgi3",
        loop="uvloop" if importlib.util.find_spec("uvloop") else "auto",
        http=OneWriteProtocol,
        proxy_headers=False,  # who called, through whatever proxy, is nothing that a server decides by
        ws=ws,
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
    )
    server = (make_server or DrainingServer)(config)
    OPEN_FILES.bound(raise_limit(), lambda: len(server.server_state.connections))
    if isinstance(server, DrainingServer):
        server.name = name
        server.watchdog = Watchdog(_Deputy(hosted, server), settings.blocked_seconds)
    gc.freeze()  # what is loaded now lives for ever: no collection need look at it again
    RareCollections().start()
    for number in (signal.SIGTERM, signal.SIGINT):
        # A stop counts from now on, also before uvicorn listens for it. Afterwards uvicorn raises the signal once more,
        # and a drained server is to end with 0.
        signal.signal(number, server.handle_exit)
    with suppress(SystemExit):  # how newer uvicorns say that the app did not start
        server.run(sockets=[copy for one in hosted for copy in _accepting(one.listener)])
    if not server.started and not (isinstance(server, DrainingServer) and server.stopped_early):
        raise GymError("the server did not start; the reason stands above")


class DrainingServer(PromptServer):
    """Tells kept connections to close before it closes them, so that none is closed under a request on its way."""

    name = "server"  # as its log tells of it
    watchdog: Watchdog | None = None
    stopped_early = False  # before it had started
    _stop_starting: Callable[[], object] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """A stop ends it: what an author's start() waits for may never come, and SIGKILL did after 15 s."""
        if self.should_exit:
            self.stopped_early = True
            return
        loop, starting = asyncio.get_running_loop(), asyncio.current_task()
        assert starting is not None
        self._stop_starting = lambda: loop.call_soon_threadsafe(starting.cancel)
        try:
            await super().startup(sockets)
        except asyncio.CancelledError:
            if not self.should_exit:
                raise
            starting.uncancel()
            self.stopped_early = True
        self._stop_starting = None
        if not self.started:
            return
        log.info("%s is ready", self.name)
        if self.watchdog is not None:  # what an author's start() loads may take as long as it takes
            self.watchdog.start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._stop_starting is not None:
            self._stop_starting()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("%s stops: it finishes what is in flight", self.name)
        for listening in self.servers:
            listening.close()
        self.server_state.default_headers.append((b"connection", b"close"))
        now = asyncio.get_running_loop().time
        for _ in range(25):  # half a second at most: a busy client has asked again by then, an idle one has not
            if not any(_may_be_busy(one, now()) for one in self.server_state.connections):
                break
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)
        if self.watchdog is not None:
            self.watchdog.stop()


def _may_be_busy(connection: object, now: float) -> bool:
    """Not one whose last answer is half a second old: it has had its time before the stop came."""
    timer = getattr(connection, "timeout_keep_alive_task", None)  # uvicorn's, from the end of an answer on
    return timer is None or float(timer.when()) - KEEP_ALIVE_SECONDS > now - IDLE_SECONDS


def _refusing(hosted: Hosted, rules: Rules) -> Refusing:
    settings, loopback = hosted.settings, is_loopback_socket(hosted.listener)
    return Refusing(hosted.app, settings.name, loopback=loopback, rules=rules, hosts=_hosts(settings))


@dataclass(frozen=True)
class _Deputy:
    """Answers in the place of an event loop that is blocked, for each instance by its own name."""

    hosted: Sequence[Hosted]
    server: uvicorn.Server

    def refuse(self, blocked: Blocked) -> None:
        for one in self.hosted:
            refuse_callers(one.listener, failure_of_others(one.settings.name, str(blocked)))

    def answer_waiting(self, blocked: Blocked) -> None:
        message = f"{blocked}; the process was ended"
        for one in self.hosted:
            own, others = (of(one.settings.name, message) for of in (failure_of_blocked, failure_of_others))
            refuse_callers(one.listener, others)
            answer_waiting(self._connections(one), blocked.headers, own, others)

    def _connections(self, one: Hosted) -> list[Any]:
        found = list(self.server.server_state.connections)
        return found if len(self.hosted) == 1 else [each for each in found if _port_of(each) == one.port]

    def is_stopping(self) -> bool:
        return self.server.should_exit


def _port_of(connection: Any) -> int:
    """Uvicorn's, as a scope has it."""
    return int(connection.server[1])


def listen(where: str) -> socket.socket:
    """`fd:N` is a listening socket we were given; `host:port` is bound here."""
    kind, _, number = where.rpartition(":")
    if not number.isdecimal() or not kind or int(number) > 65535:
        raise UserError(f"{labels.ENV_LISTEN}={where} is not an address to listen on", "write host:port, or fd:N")
    if kind == "fd":
        return _inherited(int(number))
    host, port = kind, number
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), int(port)))
    except OSError as error:
        listener.close()
        raise UserError(
            f"cannot listen on {where}: {error.strerror}", f"free the port or change {labels.ENV_LISTEN}"
        ) from None
    listener.listen(BACKLOG)
    return listener


def _hosts(settings: Settings) -> frozenset[str]:
    """Its own name is not a page's."""
    return settings.hosts | {socket.gethostname().lower()}


def is_loopback_socket(listener: socket.socket) -> bool:
    """True when only this machine can connect."""
    if listener.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


def _accepting(listener: socket.socket) -> list[socket.socket]:
    """The same socket several times: uvloop accepts one caller a turn from each, and ten thousand may come at once."""
    return [listener, *(listener.dup() for _ in range(ACCEPTED_EACH_TURN - 1))]


def _inherited(number: int) -> socket.socket:
    try:
        return socket.socket(fileno=number)
    except OSError as error:
        what = f"{labels.ENV_LISTEN}=fd:{number} is not a socket that this process was given: {error.strerror}"
        raise UserError(what, "start the server with `gym up`, or set host:port") from None


if __name__ == "__main__":
    raise SystemExit(main())
