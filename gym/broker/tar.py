"""Tar as a stream, both ways, never whole in memory. Reading trusts nothing: sizes, names and counts are bounded."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from gym.broker.errors import RequestRefused
from gym.wire.sandbox import FileInfo

BLOCK: Final = 512
PIECE: Final = 1 << 20
LONGEST_NAME: Final = 4096
LATEST: Final = 1 << 40  # seconds; no file system goes further
MAX_EXTRA: Final = 256 << 10  # of pax records and GNU long names before one entry


@dataclass(slots=True)
class TarEntry:
    """One member as its header describes it; `link` is the target of a symbolic or a hard link."""

    name: str
    kind: str  # file | dir | symlink | hardlink | other
    size: int
    mode: int
    mtime: float
    link: str


class TarReader:
    """Bytes as they come, unpacked where they are gzip, read in the sizes that tar wants."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._held = bytearray()
        self._raw = b""
        self._inflate: zlib._Decompress | None = None
        self._begun = False
        self._ended = False

    async def read(self, size: int) -> bytes:
        """Exactly so many; `RequestRefused` where the stream ends before."""
        while len(self._held) < size:
            if not await self._more():
                raise RequestRefused("the tar breaks off in the middle", 422)
        data = bytes(self._held[:size])
        del self._held[:size]
        return data

    async def read_or_end(self, size: int) -> bytes:
        while len(self._held) < size and await self._more():
            pass
        return b"" if not self._held else await self.read(size)

    async def drain(self) -> None:
        """What follows the end of the archive is padding."""
        async for _ in self._chunks:
            pass

    async def _more(self) -> bool:
        if self._inflate is not None and self._raw:  # gzip is unpacked a piece at a time: a bomb stays folded
            return self._unpack()
        if self._ended:
            return False
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            self._ended = True
            return False
        if not self._begun:
            self._begun = True
            if chunk[:2] == b"\x1f\x8b":
                self._inflate = zlib.decompressobj(31)
        if self._inflate is None:
            self._held += chunk
            return True
        self._raw += chunk
        return self._unpack()

    def _unpack(self) -> bool:
        assert self._inflate is not None
        try:
            self._held += self._inflate.decompress(self._raw, PIECE)
        except zlib.error as error:
            raise RequestRefused(f"the gzip is broken: {error}", 422) from None
        self._raw = b"" if self._inflate.eof else self._inflate.unconsumed_tail
        return True


async def read_entries(source: TarReader) -> AsyncIterator[TarEntry]:
    """Headers, one after the other. Between two of them the caller reads exactly the padded content of a file."""
    extra: dict[str, str] = {}
    held = 0
    while header := await source.read_or_end(BLOCK):
        if header == bytes(BLOCK):
            break
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            raise RequestRefused(f"this is not a tar: {error}", 422) from None
        if info.type in (b"x", b"g", b"X", b"L", b"K"):
            held += info.size
            if info.size < 0 or held > MAX_EXTRA:
                raise RequestRefused("the tar has an extended header without end", 422)
            data = (await source.read(padded(info.size)))[: info.size]
            extra |= read_extra(info.type, data)
            continue
        yield to_entry(info, extra)
        extra, held = {}, 0
    await source.drain()


def read_extra(kind: bytes, data: bytes) -> dict[str, str]:
    if kind == b"g":
        return {}
    if kind in (b"L", b"K"):
        return {"path" if kind == b"L" else "linkpath": data.rstrip(b"\0").decode("utf-8", "surrogateescape")}
    found: dict[str, str] = {}
    while data:
        length, _, rest = data.partition(b" ")
        if not length.isdigit() or len(length) > 9 or not len(length) < int(length) <= len(data):
            raise RequestRefused("the tar has a broken extended header", 422)
        key, _, value = rest[: int(length) - len(length) - 2].partition(b"=")
        found[key.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
        data = data[int(length) :]
    return found


def to_entry(info: tarfile.TarInfo, extra: dict[str, str]) -> TarEntry:
    if any(key.startswith("GNU.sparse") for key in extra):
        raise RequestRefused("the tar has sparse files: pack it without --sparse", 422)
    try:
        size, mtime = int(extra.get("size", info.size)), float(extra.get("mtime", info.mtime))
    except ValueError:
        raise RequestRefused("the tar has a broken extended header", 422) from None
    if not abs(mtime) < LATEST:
        raise RequestRefused(f"{info.name[:80]!r}: its time in the tar is invalid", 422)
    name, link = extra.get("path", info.name), extra.get("linkpath", info.linkname)
    if size < 0 or len(name) > LONGEST_NAME or len(link) > LONGEST_NAME:
        raise RequestRefused(f"the tar has an entry of a negative size or an endless name: {name[:80]!r}", 422)
    kind = "file" if info.isreg() and info.type != tarfile.GNUTYPE_SPARSE else KINDS.get(info.type, "other")
    if kind == "file" and name.endswith("/"):
        kind = "dir"  # as the oldest tars wrote them
    if kind in ("dir", "symlink", "hardlink"):
        size = 0 if kind != "hardlink" else size
    return TarEntry(name, kind, size, info.mode & 0o7777, mtime, link)


def header_of(name: str, info: FileInfo, size: int) -> bytes:
    """What one file of a sandbox looks like in a tar."""
    made = tarfile.TarInfo(name)
    made.mode, made.mtime, made.size = info.mode & 0o7777, info.mtime, size
    made.type = {"dir": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}.get(info.kind, tarfile.REGTYPE)
    made.linkname = info.target or ""
    made.uid, made.gid = info.uid, info.gid
    return made.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


KINDS: Final = {tarfile.DIRTYPE: "dir", tarfile.SYMTYPE: "symlink", tarfile.LNKTYPE: "hardlink"}
END: Final = bytes(2 * BLOCK)
