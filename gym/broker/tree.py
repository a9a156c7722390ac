"""Trees of files into a sandbox and out of it. An archive cannot reach past its directory, and cannot be endless.

Refused: names with `..`, links that lead out, paths through links of the archive, devices. Absolute names lose their
leading slash; a hard link becomes a copy.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import AsyncIterator

from gym.broker.errors import RequestRefused
from gym.broker.provider import Channel
from gym.broker.tar import BLOCK, END, PIECE, TarEntry, TarReader, header_of, padded, read_entries
from gym.errors import first_error

MAX_ENTRIES = 200_000
AT_ONCE = 16  # small files under way
SMALL = 256 << 10


async def unpack_tree(channel: Channel, path: str, chunks: AsyncIterator[bytes], max_bytes: int) -> tuple[int, int]:
    """Returns how many entries and bytes. Entries before a refused one stay."""
    source = TarReader(chunks)
    try:
        async with asyncio.TaskGroup() as group:
            unpacking = Unpacking(channel, path.rstrip("/") or "/", max_bytes, group)
            await unpacking.make_dir("")
            async for entry in read_entries(source):
                await unpacking.take(entry, source)
            await unpacking.settle()
    except BaseExceptionGroup as several:
        raise first_error(several) from None
    return unpacking.count, unpacking.size


class Unpacking:
    def __init__(self, channel: Channel, top: str, max_bytes: int, group: asyncio.TaskGroup) -> None:
        self._channel = channel
        self._top = top
        self._max_bytes = max_bytes
        self._group = group
        self._dirs: set[str] = set()
        self._links: set[str] = set()
        self._files: set[str] = set()
        self._dir_modes: dict[str, int] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self.count = 0
        self.size = 0

    async def take(self, entry: TarEntry, source: TarReader) -> None:
        self.count += 1
        self.size += entry.size
        if self.count > MAX_ENTRIES:
            raise RequestRefused(f"the tar has more than {MAX_ENTRIES} entries", 413)
        if self.size > self._max_bytes:
            raise RequestRefused(
                f"the tar unpacks to more than {self._max_bytes} bytes, which is what the sandbox may hold", 413
            )
        name = plain_name(entry.name)
        self._check_way(name)
        if entry.kind == "other":
            raise RequestRefused(f"{entry.name!r}: devices, pipes and sparse files are not unpacked", 422)
        await self.make_dir(posixpath.dirname(name))
        if entry.kind == "dir":
            await self.make_dir(name)
            self._dir_modes[name] = entry.mode
        elif entry.kind == "file":
            await self._file(name, entry, source)
        else:
            await self._link(name, entry)

    async def make_dir(self, name: str) -> None:
        if name in self._dirs:
            return
        await self._channel.make_dir(self._at(name))
        while name not in self._dirs:
            self._dirs.add(name)
            name = posixpath.dirname(name)

    async def settle(self) -> None:
        """Directories get their modes last: one that may not be written has to be filled first."""
        await self._all_written()
        for name, mode in sorted(self._dir_modes.items(), reverse=True):
            if name:
                await self._channel.make_dir(self._at(name), mode=mode)

    async def _file(self, name: str, entry: TarEntry, source: TarReader) -> None:
        if name in self._writing:
            await self._all_written()
        self._files.add(name)
        if entry.size <= SMALL:
            data = (await source.read(padded(entry.size)))[: entry.size] if entry.size else b""
            if len(self._writing) >= AT_ONCE:
                await asyncio.wait(self._writing.values(), return_when=asyncio.FIRST_COMPLETED)
            task = self._group.create_task(self._write_small(name, data, entry))
            self._writing[name] = task
            task.add_done_callback(lambda _: self._writing.pop(name, None))
            return
        path = self._at(name)
        await self._channel.write_pieces(path, self._pieces(entry.size, source), mode=entry.mode)
        await self._channel.set_times(path, entry.mtime)

    async def _pieces(self, size: int, source: TarReader) -> AsyncIterator[bytes]:
        for offset in range(0, size, PIECE):
            yield await source.read(min(PIECE, size - offset))
        await source.read(padded(size) - size)

    async def _write_small(self, name: str, data: bytes, entry: TarEntry) -> None:
        await self._channel.write_file(self._at(name), data, mode=entry.mode)
        await self._channel.set_times(self._at(name), entry.mtime)

    async def _link(self, name: str, entry: TarEntry) -> None:
        if entry.kind == "symlink":
            check_link(name, entry.link)
            self._links.add(name)
            await self._channel.make_link(self._at(name), entry.link)
            return
        origin = plain_name(entry.link)
        if origin not in self._files:
            raise RequestRefused(
                f"{entry.name!r} is a hard link to {entry.link!r}, which is not a file of this tar", 422
            )
        await self._all_written()
        self._files.add(name)
        self.size += await self._copy(origin, name, entry)

    async def _copy(self, origin: str, name: str, entry: TarEntry) -> int:
        offset = 0
        while True:
            piece = await self._channel.read_file(self._at(origin), offset=offset, length=PIECE)
            if piece or not offset:
                first = not offset
                await self._channel.write_file(
                    self._at(name), piece, mode=entry.mode if first else None, append=not first
                )
            offset += len(piece)
            if len(piece) < PIECE:
                return offset
            if self.size + offset > self._max_bytes:
                raise RequestRefused(f"the tar unpacks to more than {self._max_bytes} bytes", 413)

    async def _all_written(self) -> None:
        while self._writing:
            await asyncio.wait(self._writing.values())

    def _check_way(self, name: str) -> None:
        way = posixpath.dirname(name)
        while way:
            if way in self._links:
                raise RequestRefused(f"{name!r} leads through {way!r}, a link of the same tar", 422)
            way = posixpath.dirname(way)
        if name in self._links:
            raise RequestRefused(f"{name!r} stands in the tar twice, first as a link", 422)

    def _at(self, name: str) -> str:
        return posixpath.join(self._top, name) if name else self._top


async def pack_tree(channel: Channel, path: str) -> AsyncIterator[bytes]:
    """Regular files, directories and links; what else there is (sockets, pipes) is left out."""
    top = path.rstrip("/") or "/"
    for info in await channel.list(top, recursive=True):
        name = posixpath.relpath(info.path, top)
        if info.kind == "other":
            continue
        size = info.size if info.kind == "file" else 0
        yield header_of(name, info, size)
        if size:
            async for piece in exactly(channel, posixpath.join(top, name), size):
                yield piece
    yield END


async def exactly(channel: Channel, path: str, size: int) -> AsyncIterator[bytes]:
    """The header has promised so many bytes: one that shrank meanwhile is filled up, one that grew is cut."""
    offset = 0
    while offset < size:
        piece = await channel.read_file(path, offset=offset, length=min(PIECE, size - offset))
        piece = piece or bytes(min(PIECE, size - offset))
        yield piece
        offset += len(piece)
    if rest := -size % BLOCK:
        yield bytes(rest)


def plain_name(given: str) -> str:
    """Relative, without `.` and without a way up; the top itself is the empty name."""
    name = posixpath.normpath(given.lstrip("/") or ".")
    if ".." in given.split("/") or "\0" in given:
        raise RequestRefused(f"{given!r}: a name with `..` would leave the directory", 422)
    return "" if name == "." else name


def check_link(name: str, target: str) -> None:
    end = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    if not target or target.startswith("/") or end == ".." or end.startswith("../"):
        raise RequestRefused(f"{name!r} is a link to {target!r}, which leads out of the directory", 422)
