"""The process of several instances: what they have in common are its variables, the rest it reads from descriptor 4."""

from __future__ import annotations

import array
import socket
from collections.abc import Mapping, Sequence

import orjson

from gym import labels
from gym.runtime.local.child_process import CONFIG_FD, LISTENER_FD, ProcessSpec
from gym.runtime.local.home import Home

AT_ONCE = 200  # sockets in one message; Linux takes 253


def shared_spec(process: str, specs: Sequence[ProcessSpec], home: Home, digest: str) -> ProcessSpec:
    """`specs`: of each instance, as it would run alone."""
    variables = [_variables(one) for one in specs]
    common = dict(set.intersection(*(set(one.items()) for one in variables)))
    own = [{name: value for name, value in one.items() if common.get(name) != value} for one in variables]
    first = specs[0]
    return ProcessSpec(
        id=process,
        argv=first.argv,
        env={
            **common,
            labels.ENV_SHARED: f"/dev/fd/{CONFIG_FD}",
            labels.ENV_LISTEN: f"fds:{LISTENER_FD}",
            labels.ENV_REPLICA: process,
        },
        cwd=first.cwd,
        log=home.log(process),
        drain_seconds=first.drain_seconds,
        document=orjson.dumps(own),
        digest=digest,
        digests={one.id: one.digest for one in specs},
    )


def sockets_in_flight(listeners: Sequence[socket.socket]) -> socket.socket:
    """A socket from which a process that inherits it receives these, in this order. They wait in the kernel."""
    sender, receiver = socket.socketpair()
    with sender:
        for start in range(0, len(listeners), AT_ONCE):
            numbers = array.array("i", [one.fileno() for one in listeners[start : start + AT_ONCE]])
            sender.sendmsg([b"s"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
    return receiver


def _variables(spec: ProcessSpec) -> Mapping[str, str]:
    """A long configuration too: all of them stand in one file."""
    whole = {name: value for name, value in spec.env.items() if name not in (labels.ENV_CONFIG_FILE, labels.ENV_LISTEN)}
    return {**whole, labels.ENV_CONFIG: spec.document.decode()} if spec.document else whole
