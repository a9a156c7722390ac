"""A line from a person's shell to the sandbox broker of a stack, wherever that listens.

A local broker listens on loopback. One in a container is on a network that leads nowhere, so the line goes through
`docker exec`: no port is published, and a user of the engine may do as much anyway.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from gym.cli.stack_session import StackSession, running
from gym.engine import docker_environ, engine_host
from gym.errors import UserError
from gym.http.keepalive import keep_alive
from gym.plan import SANDBOX
from gym.runtime.sandbox_access import read_tokens
from gym.runtime.status import ReplicaStatus
from gym.wire.stack_names import PORT

CONNECT_SECONDS: Final = 10.0
# `cat` on the right reads what we write; a background process of a shell would be given no standard input.
RELAY: Final = f"exec 3<>/dev/tcp/127.0.0.1/{PORT}; cat <&3 & cat >&3"


class BrokerAccess(NamedTuple):
    """Where it is, and the token of people."""

    replica: ReplicaStatus
    token: str = ""


def find_broker(session: StackSession) -> BrokerAccess:
    status = running(session.home, session.runtime.name)
    found = next((one for one in status.replicas if one.type == SANDBOX), None)
    if found is None:
        raise UserError(
            f"Stack '{status.stack}' has no sandboxes: no instance in it asks for any.",
            "Add `sandbox:` to an instance's config (docs/sandboxes.md), then gym up again.",
        )
    tokens = read_tokens(session.home)
    if tokens is None:
        raise UserError(
            f"The tokens of stack '{status.stack}' are gone from {session.home}.", "Start it again: gym up NAMES"
        )
    return BrokerAccess(found, tokens.operator)


@contextmanager
def connect(broker: BrokerAccess) -> Iterator[socket.socket]:
    """One connection to the broker; closed, whatever happens."""
    if broker.replica.container:
        with _through_container(broker.replica.container) as line:
            yield line
        return
    host, _, port = broker.replica.url.removeprefix("http://").rpartition(":")
    try:
        line = socket.create_connection((host, int(port)), CONNECT_SECONDS)
    except OSError as error:
        raise UserError(f"The sandbox broker does not answer: {error.strerror or error}.", "gym ps") from error
    line.settimeout(None)
    keep_alive(line)
    with line:
        yield line


@contextmanager
def _through_container(name: str) -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    argv = ("docker", "exec", "--interactive", name, "bash", "-c", RELAY)
    with ours:
        with theirs:
            relay = subprocess.Popen(
                argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                env=docker_environ(engine_host()),
            )
        try:
            yield ours
        finally:
            ours.close()
            relay.terminate()
            relay.wait()
