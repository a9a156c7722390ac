"""How a command talks to a stack's supervisor: one JSON line in, JSON lines out, over a unix socket of the owner's.

A reply is any number of `{"status": …}` and at last `{"done": …}` or `{"error": …}`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from gym.errors import GymError, InfraError, NotUp, StartFailed, UserError
from gym.runtime.local.home import Home

BACKLOG = 64


def bind_control(home: Home) -> socket.socket:
    """A listening socket in the stack's folder, or at a short path where that one is too long or takes no sockets."""
    try:
        return _listen(_path_inside(home))
    except OSError:
        _private_temp().mkdir(mode=0o700, exist_ok=True)
        if not _is_private(_private_temp()):
            raise UserError(
                f"{_private_temp()} is not a private folder of yours, so no control socket is put there.",
                "Remove it, or set TMPDIR to a folder of yours.",
            ) from None
        return _listen(_short_path(home))


def connect(home: Home, recorded: str = "") -> socket.socket | None:
    """A connection to the supervisor; None when no supervisor listens."""
    for path in (*([Path(recorded)] if recorded else []), _path_inside(home), _short_path(home)):
        if not _is_private(path.parent):
            continue
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(path))
            return connection
        except OSError:
            connection.close()
    return None


def ask(connection: socket.socket, verb: str, **content: Any) -> Iterator[dict[str, Any]]:
    """Send one order, yield what comes until it is done; an `error` is raised as what it was there."""
    with contextlib.closing(connection), connection.makefile("rb") as lines:
        connection.sendall(orjson.dumps({"verb": verb, **content}) + b"\n")
        for line in lines:
            reply: dict[str, Any] = orjson.loads(line)
            if "error" in reply:
                raise error_from_dict(reply["error"])
            yield reply
            if "done" in reply:
                return
    raise ConnectionResetError("the supervisor ended before it had answered")


def error_to_dict(error: GymError) -> dict[str, str]:
    if isinstance(error, StartFailed):
        what = error.what.removeprefix(f"{error.server}: ").removesuffix(f"\n{error.log}")
        family = "late" if isinstance(error, NotUp) else "start"
        return {"family": family, "server": error.server, "what": what, "log": error.log, "hint": error.hint}
    return {"family": "user" if isinstance(error, UserError) else "infra", "what": error.what, "hint": error.hint}


def error_from_dict(fields: Mapping[str, str]) -> GymError:
    if fields["family"] in ("start", "late"):
        kind = NotUp if fields["family"] == "late" else StartFailed
        return kind(fields["server"], fields["what"], fields["log"], fields["hint"])
    family = UserError if fields["family"] == "user" else InfraError
    return family(fields["what"], fields["hint"])


def _path_inside(home: Home) -> Path:
    return home.path / "control.sock"


def _short_path(home: Home) -> Path:
    return _private_temp() / f"{hashlib.sha256(os.fsencode(home.path)).hexdigest()[:20]}.sock"


def _private_temp() -> Path:
    return Path(tempfile.gettempdir()) / f"gym-{os.getuid()}"


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _is_private(folder: Path) -> bool:
    """Orders hold secrets: a folder that a stranger may have made, or may write to, is not used."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) & 0o077 == 0 and stat.S_ISDIR(found.st_mode)
