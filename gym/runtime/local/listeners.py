"""The sockets of a stack: bound once, kept for its life, so that a restarted server is never met by a refusal."""

from __future__ import annotations

import errno
import ipaddress
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gym.errors import UserError
from gym.runtime.local.warden import STORE

BACKLOG = 65_535  # the kernel's own limit holds: net.core.somaxconn
LOOPBACK = "127.0.0.1"
SUPERVISOR = "gym.runtime.local.supervisor"  # the module that owns a stack, as it stands in a process list


def listen_on_loopback() -> socket.socket:
    return listen_at(LOOPBACK)


def listen_at(host: str, port: int = 0) -> socket.socket:
    """A listening socket, on a port the kernel chose where none is named. Connections wait in its backlog while no
    server takes them."""
    listener = _bind(host, port)
    listener.listen(BACKLOG)
    return listener


def reserve_port(host: str = LOOPBACK, port: int = 0) -> socket.socket:
    """A bound socket that does not listen: no other process gets the port. On Linux a server that sets SO_REUSEADDR,
    as all event loops do, may still bind it."""
    return _bind(host, port)


def listen_for_router(host: str, port: int) -> socket.socket:
    """The outside entry point; a port in use is reported with its holder."""
    try:
        listener = _bind(host, port)
        listener.listen(BACKLOG)
        return listener
    except OSError as error:
        raise _unusable(host, port, error) from error


def address_of(listener: socket.socket) -> tuple[str, int]:
    host, port = listener.getsockname()[:2]
    return str(host), int(port)


def url_of(host: str, port: int) -> str:
    """Where a caller on this machine finds a listener; one on every address is found on loopback."""
    found = "127.0.0.1" if host == "0.0.0.0" else "::1" if host == "::" else host
    return f"http://[{found}]:{port}" if ":" in found else f"http://{found}:{port}"


def holder_of(port: int) -> str:
    """`pid 812 (python app.py)`, as far as this user may know; empty when not."""
    if sys.platform == "linux":
        return next(_holders_by_proc(port), "")
    return _holder_by_lsof(port)


def _bind(host: str, port: int) -> socket.socket:
    name = LOOPBACK if host == "localhost" else host.strip("[]")
    family = socket.AF_INET6 if ipaddress.ip_address(name).version == 6 else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((name, port))
    except OSError:
        listener.close()
        raise
    return listener


def _unusable(host: str, port: int, error: OSError) -> UserError:
    if error.errno == errno.EADDRINUSE:
        holder = holder_of(port)
        held = f"held by {holder}" if holder else "held by a process this user may not look into"
        return UserError(
            f"port {port} on {host} is in use: {held}.",
            "Stop it (a stack: `gym down` in its folder), or choose another port: gym up … --port 0",
        )
    return UserError(f"the router cannot listen on {host}:{port}: {error.strerror}.", "Choose others: --bind, --port")


def _holders_by_proc(port: int) -> Iterator[str]:
    inodes = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not inodes:
        return
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            found = str(descriptor.readlink()) in inodes
        except OSError:
            continue
        if found:
            yield _describe(descriptor.parts[2])


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in (line.split() for line in lines):
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                yield fields[9]


def _describe(pid: str) -> str:
    words = Path("/proc", pid, "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ").rstrip()
    # The supervisor, or its warden; what follows the folder are descriptors.
    _, owner, rest = words.partition(f" {SUPERVISOR} ")
    folder = rest.partition(f" {STORE} ")[0]
    return f"pid {pid} ({f'the stack in {folder}' if owner else words[:120]})"


def _holder_by_lsof(port: int) -> str:
    lsof = shutil.which("lsof")
    if lsof is None:
        return ""
    argv = [lsof, "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"]
    found = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    facts = {line[0]: line[1:] for line in found.splitlines() if line}
    return f"pid {facts['p']} ({facts.get('c', '?')})" if "p" in facts else ""
