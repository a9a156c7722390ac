"""`python -m gym.runtime.local.supervisor HOME`: owns a stack from `gym up` to `gym down`, listens on descriptor 3.

Its end is the end of everything it started; when it is killed, its warden starts another one, which carries on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from gym.errors import GymError, InfraError, NotUp
from gym.http.open_files import raise_limit
from gym.runtime.identity import Identity, identify
from gym.runtime.local.child_process import Reaper
from gym.runtime.local.control import bind_control, error_to_dict
from gym.runtime.local.fd_store import FdStore, open_store
from gym.runtime.local.home import Home, folder_id, only_supervisor
from gym.runtime.local.launch import launch_another_warden
from gym.runtime.local.local_stack import LocalStack
from gym.runtime.local.pid_file import PidFile, Record
from gym.runtime.local.process_logs import rotate
from gym.runtime.local.remains import read_remains
from gym.runtime.local.stack_order import StackOrder

CONTROL_FD = 3
LONGEST_LINE = 256 * 1024 * 1024  # an order holds a whole plan
FIRST_ORDER_WITHIN = 10.0  # a command killed between starting us and its order needs us no more
HEARTBEAT = 1.0
LOOK_FOR_HOME_EVERY = 2.0
ROTATE_EVERY = 10.0

log = logging.getLogger("gym.supervisor")


def main(argv: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    home = Home(Path(argv[0]))
    store = open_store(argv)
    listener = socket.socket(fileno=store.kept.get("control", CONTROL_FD))
    listener.set_inheritable(False)
    raise_limit()  # children inherit it; thousands of rollouts in flight are thousands of sockets
    with only_supervisor(home) as alone:
        if not alone:
            log.error("another supervisor holds %s", home.supervisor_lock)
            return 1
        asyncio.run(supervise(home, listener, store))
    return 0


async def supervise(home: Home, listener: socket.socket, store: FdStore) -> None:
    """Until `stop` is asked for, or the stack's folder is gone."""
    me = identify(os.getpid())
    assert me is not None
    left, order = read_remains(home), store.left_order()
    warden = identify(os.getppid()) if store.is_kept else None
    pid_file = PidFile(home, Record(supervisor=me, control=str(listener.getsockname()), warden=warden))
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        stack = LocalStack(home, pid_file, Reaper(loop), group, store)
        handler = ControlHandler(stack, me)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, handler.over.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        if order is not None:
            handler.asked = True
            log.warning("another supervisor was killed here: its servers are taken over")
            await stack.resume(order, store.left_sockets(), left)
        server = ControlServer(home, handler, pid_file, store)
        watchers = [
            stack.changes.publish_for_ever(),
            _rotate_logs(home),
            stack.reconcile_for_ever(),
            _watch_home(home, handler),
            _watch_warden(home, handler, store),
            _expect_order(handler),
        ]
        tasks = [group.create_task(watcher) for watcher in watchers]
        await server.open(listener)
        tasks.append(group.create_task(server.keep_open()))
        await handler.over.wait()
        await handler.stop()
        for task in tasks:
            task.cancel()
        server.close()
    pid_file.close()
    log.info("ended")


class ControlHandler:
    """Answers one connection each; one change at a time, and a stop goes before all."""

    def __init__(self, stack: LocalStack, me: Identity) -> None:
        self._me = me
        self.over = asyncio.Event()
        self._stack = stack
        self._lock = asyncio.Lock()
        self._work: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self.asked = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if line:
                await self._answer(orjson.loads(line), writer)
        except (OSError, ValueError) as error:
            log.info("a connection ended early: %s", error)
        finally:
            writer.close()

    @property
    def is_idle(self) -> bool:
        """Nothing is being changed, and there is an order to carry on with."""
        return self.asked and self._work is None and self._stopping is None and not self._lock.locked()

    async def stop(self) -> None:
        """However often it is asked for, it happens once."""
        if self._stopping is None:
            if self._work is not None:
                self._work.cancel()
            self._stopping = asyncio.create_task(self._stack.stop())
        await asyncio.shield(self._stopping)

    async def _answer(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        verb, timeout = message["verb"], message.get("timeout")
        if verb == "status":
            await _send(writer, {"done": self._seen()})
        elif verb == "spec":
            await self._describe(message["name"], writer)
        elif verb == "stop":
            await self._follow(self.stop(), writer)
            self.over.set()
        elif verb == "apply":
            self.asked = True
            await self._apply(message, timeout, writer)
        elif verb == "restart":
            await self._change(self._stack.restart(tuple(message["names"]), timeout), writer)
        elif verb == "scale":
            await self._change(self._stack.scale(message["replicas"], timeout), writer)

    async def _describe(self, name: str, writer: asyncio.StreamWriter) -> None:
        try:
            spec = self._stack.spec_of(name)
        except GymError as error:
            await _send(writer, {"error": error_to_dict(error)})
            return
        found = {"replica": spec.id, "argv": spec.argv, "env": dict(spec.env), "cwd": str(spec.cwd)}
        await _send(writer, {"done": found})

    async def _apply(self, message: dict[str, Any], timeout: float | None, writer: asyncio.StreamWriter) -> None:
        first = self._stack.order is None
        try:
            order = StackOrder.model_validate(message["order"])
        except ValidationError as error:
            self.asked = not first  # no other command may ever ask
            await _send(writer, {"error": error_to_dict(InfraError(f"the supervisor does not understand: {error}"))})
            return
        stays = await self._change(self._stack.apply(order, timeout), writer, ends_on_failure=first)
        if not stays:
            self.over.set()

    async def _change(
        self, work: Coroutine[Any, Any, None], writer: asyncio.StreamWriter, *, ends_on_failure: bool = False
    ) -> bool:
        """Do it, reporting. With `ends_on_failure` a failure takes the stack down before it is reported, except for
        servers that are late or end at each start: these are waited for. True when the stack stays."""
        async with self._lock:
            try:
                self._work = asyncio.create_task(work)
                await self._follow(self._work, writer)
                return True
            except NotUp as late:
                error: GymError = late
                ends_on_failure = False
            except asyncio.CancelledError:
                error = InfraError("the stack was taken down meanwhile.", "Start it again: gym up NAMES")
            except GymError as known:
                error = known
            finally:
                self._work = None
        log.error("%s", error)
        if ends_on_failure:
            await self._report(asyncio.create_task(self.stop()), writer)
        with contextlib.suppress(OSError):
            await _send(writer, {"error": error_to_dict(error)})
        return not ends_on_failure

    async def _follow(self, work: Coroutine[Any, Any, None] | asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        """Status lines while it goes on, and a last one when it is done."""
        task = asyncio.ensure_future(work)
        listening = await self._report(task, writer)
        task.result()
        if listening:
            await _try_send(writer, {"done": self._seen()})

    async def _report(self, task: asyncio.Future[None], writer: asyncio.StreamWriter) -> bool:
        """Status lines until the task ends. A caller that left is not a reason to stop; true while there is one."""
        last: dict[str, Any] = {}
        listening = True
        while not task.done():
            seen = self._seen()
            if listening:
                listening = await _try_send(writer, {"status": seen["status"]} if seen != last else {"still": True})
            last = seen
            change = asyncio.create_task(self._stack.changes.next(HEARTBEAT))
            await asyncio.wait([task, change], return_when=asyncio.FIRST_COMPLETED)
            change.cancel()
        return listening

    def _seen(self) -> dict[str, Any]:
        status, observed = self._stack.status(), self._stack.observed()
        return {
            "status": asdict(status),
            "observed": observed.model_dump(mode="json"),
            "supervisor": asdict(self._me),
        }


class ControlServer:
    """The control socket: recreated when its file is gone, or commands would take the stack for dead."""

    def __init__(self, home: Home, handler: ControlHandler, pid_file: PidFile, store: FdStore) -> None:
        self._home, self._handler, self._pid_file, self._store = home, handler, pid_file, store
        self._folder = folder_id(home.path)
        self._path = Path()
        self._file: tuple[int, int] | None = None
        self._servers: list[asyncio.Server] = []

    async def open(self, listener: socket.socket) -> None:
        self._path = Path(str(listener.getsockname()))
        self._file = folder_id(self._path)
        self._servers.append(await asyncio.start_unix_server(self._handler.serve, sock=listener, limit=LONGEST_LINE))

    async def keep_open(self) -> None:
        while True:
            await asyncio.sleep(LOOK_FOR_HOME_EVERY)
            if self._file == folder_id(self._path) or folder_id(self._home.path) != self._folder:
                continue
            try:
                listener = bind_control(self._home)
                await self.open(listener)
                self._store.keep_control(listener)
                self._pid_file.set_control(str(self._path))
                log.warning("the control socket was gone: recreated")
            except (OSError, GymError) as error:
                log.error("commands cannot reach the supervisor: %s", error)

    def close(self) -> None:
        for server in self._servers:
            server.close()
        self._path.unlink(missing_ok=True)


async def _send(writer: asyncio.StreamWriter, reply: dict[str, Any]) -> None:
    writer.write(orjson.dumps(reply) + b"\n")
    await writer.drain()


async def _try_send(writer: asyncio.StreamWriter, reply: dict[str, Any]) -> bool:
    try:
        await _send(writer, reply)
    except OSError:
        return False
    return True


async def _rotate_logs(home: Home) -> None:
    while True:
        await asyncio.sleep(ROTATE_EVERY)
        for path in (*home.logs.glob("*.log"), home.path / "access.log"):
            with contextlib.suppress(OSError):
                rotate(path)


async def _watch_home(home: Home, handler: ControlHandler) -> None:
    folder = folder_id(home.path)
    while folder_id(home.path) == folder is not None:
        await asyncio.sleep(LOOK_FOR_HOME_EVERY)
    log.warning("%s is gone: everything is ended", home.path)
    handler.over.set()


async def _watch_warden(home: Home, handler: ControlHandler, store: FdStore) -> None:
    """No process would carry on after us: another warden is started, and with it our successor. No server notices."""
    while not (store.lost and handler.is_idle):
        await asyncio.sleep(HEARTBEAT)
    log.warning("the warden was killed: another one is started, and another supervisor carries on")
    launch_another_warden(home, store.held)
    os._exit(1)


async def _expect_order(handler: ControlHandler) -> None:
    await asyncio.sleep(FIRST_ORDER_WITHIN)
    if not handler.asked:
        handler.over.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
