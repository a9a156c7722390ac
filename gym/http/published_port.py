"""A port that Docker publishes on this machine, and many connections, which do better without its proxy.

`docker-proxy` copies each byte once more, 0.15 ms of CPU a rollout, and has six files open for each connection: when it
cannot open another it exits, and from then on the port refuses everybody. Its arguments say which container it forwards
to, and from this machine that container is reached without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from gym.http.dial import Endpoint, P, TcpDial

FEW: Final = 160  # connections that any proxy has files for: 1,024 is the least that systems allow a process
LOOK_SECONDS: Final = 1.0  # from one look through the processes to the next, where none was found
PROBE_SECONDS: Final = 0.5  # for the first connection: a container that is out of reach need not refuse it
COMMAND: Final = b"docker-proxy"


class PortProxy(NamedTuple):
    folder: Path  # of its process
    arguments: bytes  # as long as these stand there, the container is where they say
    host: str
    port: int

    @property
    def lives(self) -> bool:
        return _read(self.folder / "cmdline") == self.arguments


class PublishedPortDial(TcpDial):
    """Goes around the proxy where many connections are asked for; else, and where that fails, through it."""

    def __init__(
        self, connections: int, *, proc: Path = Path("/proc"), owner: int = 0, probe_seconds: float = PROBE_SECONDS
    ) -> None:
        """`owner`: a proxy of another user's engine forwards into a network that is not this machine's."""
        super().__init__()
        self._has_few = connections <= FEW
        self._proc = proc
        self._owner = owner
        self._probe_seconds = probe_seconds
        self._proxies: dict[tuple[str, int], PortProxy] = {}
        self._looked: dict[tuple[str, int], float] = {}
        self._worked: set[bytes] = set()  # arguments of proxies
        self._failed: set[bytes] = set()

    async def open(self, make: Callable[[], P], address: Endpoint) -> tuple[Any, P]:
        proxy = None if self._has_few or address.tls else self._find(address)
        if proxy is None or proxy.arguments in self._failed:
            return await super().open(make, address)
        container = address._replace(host=proxy.host, port=proxy.port)
        if proxy.arguments in self._worked:
            return await super().open(make, container)
        try:
            async with asyncio.timeout(self._probe_seconds):
                opened = await super().open(make, container)
        except OSError:  # TimeoutError is one
            if proxy.arguments not in self._worked:
                self._failed.add(proxy.arguments)
            return await super().open(make, address)
        self._worked.add(proxy.arguments)
        return opened

    def _find(self, address: Endpoint) -> PortProxy | None:
        key = address.host, address.port
        known = self._proxies.get(key)
        if known is not None and known.lives:
            return known
        now = asyncio.get_running_loop().time()
        if known is None and now - self._looked.get(key, float("-inf")) < LOOK_SECONDS:
            return None
        self._looked[key] = now
        found = find_proxy(*key, proc=self._proc, owner=self._owner)
        if found is None:
            self._proxies.pop(key, None)
        else:
            self._proxies[key] = found
        return found


def find_proxy(host: str, port: int, *, proc: Path = Path("/proc"), owner: int = 0) -> PortProxy | None:
    """The process that holds this port for a container of the machine's own engine."""
    hosts = {"127.0.0.1" if host == "localhost" else host, "0.0.0.0"}
    try:
        folders = [folder for folder in proc.iterdir() if folder.name.isdecimal()]
    except OSError:  # no Linux
        return None
    for folder in folders:
        if _read(folder / "comm").strip() != COMMAND:
            continue
        proxy = _read_proxy(folder, hosts, port)
        if proxy is not None and _owner_of(folder) == owner:
            return proxy
    return None


def _read_proxy(folder: Path, hosts: set[str], port: int) -> PortProxy | None:
    arguments = _read(folder / "cmdline")
    words = arguments.decode(errors="replace").rstrip("\0").split("\0")[1:]
    said = dict(zip(words, words[1:], strict=False))
    if said.get("-proto") != "tcp" or said.get("-host-port") != str(port) or said.get("-host-ip") not in hosts:
        return None
    container, inside = said.get("-container-ip", ""), said.get("-container-port", "")
    if not container or not inside.isdecimal():
        return None
    return PortProxy(folder, arguments, container, int(inside))


def _owner_of(folder: Path) -> int:
    try:
        return folder.stat().st_uid
    except OSError:
        return -1


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
