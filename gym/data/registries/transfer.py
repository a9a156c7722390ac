"""Downloads a file over HTTP: resumes where it was cut off, checks it, and puts it in its place only when it is whole.

The hub's own client throws away what it has when it is interrupted (since its version 2), and MLflow's never resumed.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gym.data.registries.download_lock import alone_with
from gym.data.registries.registry_http import NotSuccess, open_reply
from gym.data.registries.registry_protocol import Received, Verified
from gym.data.registries.replies import BUSY, wait_asked
from gym.errors import GymError, InfraError

_CHUNK: Final = 1 << 20
_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG})


@dataclass(frozen=True)
class Remote:
    """A file in a registry, and all that is known of it."""

    url: str
    source: str  # as it is shown
    explain: Callable[[int], GymError]  # what a status means
    authorization: str = field(default="", repr=False)  # never sent on to where a redirect points
    size: int | None = None
    sha256: str = ""
    git: str = ""  # what git calls a file of this content


@dataclass(frozen=True)
class Retries:
    """Waits between tries without progress; a try that brings bytes resets them."""

    waits: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0)
    sleep: Callable[[float], object] = time.sleep


def fetch_file(remote: Remote, destination: Path, retries: Retries | None = None) -> Received:
    """The file in its place. What was fetched already of the same file is used, also after a kill."""
    with alone_with(destination):
        found = _already_there(remote, destination)
        if found is not None:
            return found
        replaced = destination.exists()
        part = part_of(remote, destination)
        for other in destination.parent.glob(f".{glob.escape(destination.name)}.????????????.part"):
            if other != part:
                other.unlink(missing_ok=True)  # of an earlier state of the remote file
        resumed = part.exists()
        _download(remote, part, retries or Retries())
        try:
            verified = _verify(remote, part)
        except InfraError:
            part.unlink()
            if not resumed:
                raise
            _download(remote, part, retries or Retries())
            verified = _verify_or_remove(remote, part)
        size = part.stat().st_size
        part.replace(destination)
    return Received(destination, remote.source, size, verified, replaced)


def part_of(remote: Remote, destination: Path) -> Path:
    """The partial download of exactly this remote file."""
    return destination.with_name(f".{destination.name}.{_identity(remote)}.part")


def file_digest(path: Path, *, git: bool = False) -> str:
    """sha256, or what git calls a file of this content."""
    head = b"blob %d\0" % path.stat().st_size
    digest = hashlib.sha1(head, usedforsecurity=False) if git else hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _identity(remote: Remote) -> str:
    known = f"{remote.url}\n{remote.sha256}\n{remote.git}\n{remote.size}"
    return hashlib.sha256(known.encode()).hexdigest()[:12]


def _already_there(remote: Remote, destination: Path) -> Received | None:
    if not destination.is_file() or not (remote.sha256 or remote.git):
        return None
    try:
        verified = _verify(remote, destination)
    except InfraError:
        return None
    return Received(destination, remote.source, destination.stat().st_size, verified)


def _verify_or_remove(remote: Remote, part: Path) -> Verified:
    try:
        return _verify(remote, part)
    except InfraError:
        part.unlink()
        raise


def _verify(remote: Remote, path: Path) -> Verified:
    size = path.stat().st_size
    if remote.size is not None and size != remote.size:
        raise _differs(remote, f"{size:,} bytes", f"{remote.size:,}")
    if not (remote.sha256 or remote.git):
        return "size" if remote.size is not None else ""
    wanted = remote.sha256 or remote.git
    found = file_digest(path, git=not remote.sha256)
    if found != wanted:
        raise _differs(remote, f"checksum {found}", wanted)
    return "sha256" if remote.sha256 else "git"


def _differs(remote: Remote, found: str, wanted: str) -> InfraError:
    return InfraError(
        f"{remote.source}: the download has {found}, the registry says {wanted}; nothing was written",
        "Run the same command again; if the error stays, the file in the registry is damaged: upload it again.",
    )


def _download(remote: Remote, part: Path, retries: Retries) -> None:
    waits = list(retries.waits)
    while True:
        before = part.stat().st_size if part.exists() else 0
        wait: float | None = None
        try:
            if _one_try(remote, part, before):
                return
            what = "the connection ended early"
        except NotSuccess as error:
            if error.status == 416 and before:  # nothing follows what is here, and its size is not known: start over
                part.unlink()
                continue
            if error.status not in BUSY:
                raise remote.explain(error.status) from None
            wait = wait_asked(error.retry_after, time.time())
            what = f"the registry is busy ({error.status})"
        except OSError as error:
            _raise_disk_error(error, part)
            what = str(error)
        had = part.stat().st_size if part.exists() else 0
        if had > before:
            waits = list(retries.waits)
        elif not waits:
            raise _given_up(remote, what, had)
        else:
            usual = waits.pop(0)
            retries.sleep(usual if wait is None else wait)


def _given_up(remote: Remote, what: str, had: int) -> InfraError:
    of = f" of {remote.size:,}" if remote.size is not None else ""
    hint = f"{had:,}{of} bytes are here: the same command resumes from there." if had else "Run the same command again."
    return InfraError(f"{remote.source}: could not be fetched: {what}", hint)


def _raise_disk_error(error: OSError, part: Path) -> None:
    """A full disk is not an error of the connection."""
    if error.errno in _DISK:
        error.filename = error.filename or str(part)
        raise error


def _one_try(remote: Remote, part: Path, begin: int) -> bool:
    """Whether the file is whole now."""
    if remote.size is not None and begin >= remote.size:
        if begin == remote.size:
            part.touch()  # an empty file has no bytes to ask for
            return True
        part.unlink()
        begin = 0
    headers = {"Range": f"bytes={begin}-"} if begin else {}
    with open_reply("GET", remote.url, headers, authorization=remote.authorization) as reply:
        goes_on = reply.status_code == 206 and reply.headers.get("Content-Range", "").startswith(f"bytes {begin}-")
        length = reply.headers.get("Content-Length")
        wanted = remote.size
        with part.open("ab") as file:
            if not goes_on:
                file.truncate(0)
            for chunk in reply.iter_raw():  # as they come: bytes that were gathered would be lost with the connection
                file.write(chunk)
            had = file.tell()
    if wanted is None and length is not None:
        wanted = int(length) + (begin if goes_on else 0)
    return wanted is None or had >= wanted
