"""What a user should hear before a stack starts: addresses of this machine mean something else inside a container."""

from __future__ import annotations

import errno
import socket
from urllib.parse import urlsplit

from gym.config import redact_text
from gym.engine import connect, require_engine
from gym.plan.model import Plan
from gym.render.compose import reach_host, rewrite_urls

PORTS = {"http": 80, "https": 443}
PROBE_SECONDS = 0.5


def host_notices(plan: Plan) -> tuple[str, ...]:
    """One line for each URL of this machine that the plan's servers are given in other words; none has a secret."""
    keys: dict[str, list[str]] = {}
    for line in reach_host(plan)[1]:
        key, _, url = line.partition(": ")
        keys.setdefault(url, []).append(key)
    if not keys:
        return ()
    gateway = _gateway()
    return tuple(_notice(url, names, gateway) for url, names in keys.items())


def _notice(url: str, keys: list[str], gateway: str) -> str:
    said = f"{redact_text(url)} is on this machine: containers are told {redact_text(rewrite_urls(url))} ({keys[-1]})."
    port = _port_of(url)
    if gateway and port and _refused(gateway, port) and not _refused("127.0.0.1", port):
        said += (
            f"\nIt listens on 127.0.0.1 alone, where no container reaches it: let it listen on 0.0.0.0 or {gateway},"
            " or run without containers: gym up --runtime local ..."
        )
    return said


def _port_of(url: str) -> int:
    try:
        where = urlsplit(url)
        return where.port or PORTS.get(where.scheme, 0)
    except ValueError:
        return 0


def _gateway() -> str:
    """What `host-gateway` stands for on an engine of this very machine, as far as it can be told."""
    with connect(require_engine().host) as client:
        configs = client.api.inspect_network("bridge")["IPAM"]["Config"] or [{}]
    return str(configs[0].get("Gateway", ""))


def _refused(host: str, port: int) -> bool:
    """Nobody listens there. Whatever else keeps us from connecting says nothing about a container's chances."""
    try:
        socket.create_connection((host, port), PROBE_SECONDS).close()
    except OSError as error:
        return error.errno == errno.ECONNREFUSED
    return False
