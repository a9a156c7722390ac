"""What a plan does not say about this machine, read before it is prepared: sources of images, which ports answer."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Final

from gym.engine import connect, find_engine
from gym.errors import InfraError
from gym.plan.model import Plan
from gym.render.host_urls import find_host_urls
from gym.runtime.compose.image_sources import read_image_sources
from gym.runtime.compose.prepare import HostFacts, SharingFacts, port_of

PROBE_SECONDS: Final = 0.5


def read_host_facts(plan: Plan, build: Path, cache: Path, sharing: SharingFacts | None = None) -> HostFacts:
    """An engine is asked only where the plan has a URL of this machine; without an engine the rest is known."""
    sources = read_image_sources(plan, build, cache)
    ports = {port_of(one.url) for one in find_host_urls(plan)} - {0}
    gateway = _gateway() if ports else ""
    return HostFacts(
        sources=sources,
        sharing=sharing,
        gateway=gateway,
        loopback_only=frozenset(one for one in ports if gateway and _is_loopback_only(one, gateway)),
    )


def _gateway() -> str:
    """The address of `host-gateway` on an engine of this very machine, as far as the engine says it."""
    engine = find_engine()
    if isinstance(engine, InfraError):
        return ""
    with connect(engine.host) as client:
        configs = client.api.inspect_network("bridge")["IPAM"]["Config"] or [{}]
    return str(configs[0].get("Gateway", ""))


def _is_loopback_only(port: int, gateway: str) -> bool:
    return _is_refused(gateway, port) and not _is_refused("127.0.0.1", port)


def _is_refused(host: str, port: int) -> bool:
    """No server listens there. Any other error says nothing about what a container can reach."""
    try:
        socket.create_connection((host, port), PROBE_SECONDS).close()
    except OSError as error:
        return error.errno == errno.ECONNREFUSED
    return False
