"""Cuts and slows the network of one container: packet rules in its own namespace, else off its networks."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gym.engine import connect, engine_host
from gym.errors import ProgramFailed
from gym.programs import run_program

if TYPE_CHECKING:
    import docker

DELAY: Final = "150ms"
LOST: Final = "0.2"
DROP_ALL: Final = ("-j", "DROP")
DROP_SOME: Final = ("-m", "statistic", "--mode", "random", "--probability", LOST, "-j", "DROP")


@dataclass(frozen=True)
class PacketRules:
    """`slow` says by what packets can be slowed: netem of the kernel, else lost packets."""

    inside: bool  # rules can be set inside a container's namespace
    slow: str = ""
    left_out: tuple[str, ...] = ()

    @classmethod
    def find(cls) -> PacketRules:
        missing = [one for one in ("nsenter", "unshare", "iptables", "tc") if shutil.which(one) is None]
        if os.geteuid() != 0 or missing:
            why = f"{', '.join(missing)} is missing" if missing else "that takes root"
            return cls(False, "", (f"slow: {why}", f"cut: by leaving the networks; dropping packets: {why}"))
        if _works("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", DELAY):
            return cls(True, "netem")
        if _works("iptables", "-A", "INPUT", *DROP_SOME):
            return cls(True, "loss", ("slow: this kernel has no netem; one packet in five is lost instead",))
        return cls(False, "", ("slow: this kernel has neither netem nor packet statistics",))

    def cut(self, client: docker.DockerClient, id: str, seconds: float) -> None:
        with self._dropped(client, id, DROP_ALL) if self.inside else _disconnected(client, id):
            time.sleep(seconds)

    def delay(self, client: docker.DockerClient, id: str, seconds: float) -> None:
        with self._delayed(client, id) if self.slow == "netem" else self._dropped(client, id, DROP_SOME):
            time.sleep(seconds)

    @contextlib.contextmanager
    def _dropped(self, client: docker.DockerClient, id: str, rule: Sequence[str]) -> Iterator[None]:
        """Peers with a connection hear nothing; loopback stays, as with a cable that is pulled."""
        enter = _enter(client, id)
        rules = [("INPUT", "!", "-i", "lo", *rule), ("OUTPUT", "!", "-o", "lo", *rule)]
        for one in rules:
            run_program((*enter, "iptables", "-A", *one))
        try:
            yield
        finally:
            for one in rules:
                with contextlib.suppress(ProgramFailed):  # the container ended, and its namespace with it
                    run_program((*enter, "iptables", "-D", *one))

    @contextlib.contextmanager
    def _delayed(self, client: docker.DockerClient, id: str) -> Iterator[None]:
        enter = _enter(client, id)
        cards = [one for one in run_program((*enter, "ls", "/sys/class/net")).split() if one.startswith("eth")]
        for card in cards:
            run_program((*enter, "tc", "qdisc", "add", "dev", card, "root", "netem", "delay", DELAY, "50ms"))
        try:
            yield
        finally:
            for card in cards:
                with contextlib.suppress(ProgramFailed):
                    run_program((*enter, "tc", "qdisc", "del", "dev", card, "root"))


@contextlib.contextmanager
def _disconnected(client: docker.DockerClient, id: str) -> Iterator[None]:
    """Off every network, and back under the same names."""
    found: dict[str, Any] = client.api.inspect_container(id)["NetworkSettings"]["Networks"]
    for facts in found.values():
        client.api.disconnect_container_from_network(id, facts["NetworkID"], force=True)
    try:
        yield
    finally:
        for facts in found.values():
            client.api.connect_container_to_network(id, facts["NetworkID"], aliases=facts["Aliases"])


def _enter(client: docker.DockerClient, id: str) -> tuple[str, ...]:
    return ("nsenter", "--net", "--target", str(client.api.inspect_container(id)["State"]["Pid"]))


def _works(*argv: str) -> bool:
    """Tried in a namespace that is thrown away."""
    try:
        run_program(("unshare", "--net", *argv), timeout=10.0)
    except ProgramFailed:
        return False
    return True


def bridge_addresses() -> tuple[str, ...]:
    """Of this machine, on the bridge by which containers call it `host.docker.internal`; none where it is elsewhere."""
    with connect(engine_host()) as client:
        pools = client.api.inspect_network("bridge")["IPAM"]["Config"] or []
    return tuple(found for one in pools if _is_ours(found := str(one.get("Gateway", ""))))


def _is_ours(address: str) -> bool:
    """Only what is ours can be listened on."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        try:
            trial.bind((address, 0))
        except OSError:
            return False
    return bool(address)
