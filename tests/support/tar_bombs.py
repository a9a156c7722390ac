"""Headers of tars that ask for more than they bring."""

from __future__ import annotations

import tarfile


def sparse(name: str, size: int) -> bytes:
    """A file that says it has a gigabyte, of which the tar has nothing."""
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % size
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def bare_header(name: str, type_: bytes, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = type_, size
    return entry.tobuf(tarfile.GNU_FORMAT)
