"""A tar from elsewhere, read safely: few enough members, none larger than it is, no header that fills memory."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final, cast

MAX_READ: Final = 16 << 20  # bytes at once: of a header that `tarfile` would hold in whole


class SuspectTar(Exception):  # noqa: N818 (what is wrong stands in its words)
    """Who reads the tar says whose it is."""


class _Piecewise:
    """A file that gives no more at once than any honest header needs."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_READ:
            raise SuspectTar("it has a header without end")
        return self._file.read(size)


@contextmanager
def open_plain(file: IO[bytes]) -> Iterator[tarfile.TarFile]:
    """Not packed, and read a piece at a time."""
    with tarfile.open(fileobj=cast("IO[bytes]", _Piecewise(file)), mode="r:") as archive:
        yield archive


def walk(archive: tarfile.TarFile, max_files: int) -> Iterator[tarfile.TarInfo]:
    """Plain files and folders. A sparse file would take all that its header says, of which the tar has nothing."""
    for number, member in enumerate(archive):
        if number >= max_files:
            raise SuspectTar(f"it has more than {max_files} files")
        if member.issparse() or not (member.isreg() or member.isdir()):
            raise SuspectTar(f"{member.name!r} is not a plain file")
        yield member
