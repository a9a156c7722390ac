"""A directory of one sandbox into another, through their channels: tmpfs is not part of an image."""

from __future__ import annotations

from typing import Final

from gym.broker.provider import Channel

PART: Final = 4 << 20


async def copy_tree(source: Channel, target: Channel, path: str) -> None:
    for entry in await source.list(path, recursive=True):
        where = entry.path if entry.path.startswith("/") else f"{path.rstrip('/')}/{entry.path}"
        if entry.kind == "dir":
            await target.make_dir(where, mode=entry.mode & 0o7777)
        elif entry.kind == "link":
            await target.make_link(where, entry.target or "")
        elif entry.kind == "file":
            await _copy_file(source, target, where, entry.size, entry.mode & 0o7777)
            await target.set_times(where, entry.mtime)


async def _copy_file(source: Channel, target: Channel, path: str, size: int, mode: int) -> None:
    await target.write_file(path, await source.read_file(path, length=PART), mode=mode)
    for offset in range(PART, size, PART):
        await target.write_file(path, await source.read_file(path, offset=offset, length=PART), append=True)
