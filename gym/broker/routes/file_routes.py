"""The routes about files: raw bytes in and out, in pieces; whole trees as tar."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from gym.broker.errors import RequestRefused
from gym.broker.grant_check import check_user
from gym.broker.provider import Channel
from gym.broker.routes.request import Handler, Reply, Request, Stream, json_answer
from gym.broker.tree import pack_tree, unpack_tree
from gym.server.asgi import Answer
from gym.wire.failures import RolloutError
from gym.wire.sandbox import FileInfo

PIECE = 1 << 20
IDLE_SECONDS = 60.0  # a sender that is silent for so long has failed
TAR = b"application/x-tar"
RANGE = re.compile(r"^bytes=(\d+)-(\d*)$")


async def put_file(request: Request) -> Answer:
    """Replaces the file once all of it has arrived; a transfer that breaks off leaves the old file."""
    path, channel = await target(request)
    size = 0

    async def counted() -> AsyncIterator[bytes]:
        nonlocal size
        async for chunk in request.chunks(IDLE_SECONDS):
            size += len(chunk)
            yield chunk

    await channel.write_pieces(path, counted(), mode=octal(request, "mode"), append=flag(request, "append"))
    return json_answer({"path": path, "size": size}, 201)


async def get_file(request: Request) -> Reply:
    """A file, or the range of it that was asked for."""
    path, channel = await target(request)
    offset, length = wanted_range(request)
    partial = (b"content-range", b"bytes %d-/*" % offset)
    asked = "range" in {name.decode() for name in request.headers}
    chunks = read_pieces(channel, path, offset, length)
    return Stream(chunks, status=206 if asked else 200, headers=(partial,) if asked else ())


async def delete_file(request: Request) -> Answer:
    """Removes a file, or with `recursive` a folder."""
    path, channel = await target(request)
    await channel.remove(path, recursive=flag(request, "recursive"))
    return json_answer({"path": path, "removed": True})


async def stat(request: Request) -> Answer:
    """What a path is: kind, size, mode, time."""
    path, channel = await target(request)
    return Answer((await channel.stat(path)).model_dump_json().encode())


async def list_files(request: Request) -> Answer:
    """What a folder holds; with `recursive` all below it."""
    path, channel = await target(request)
    found = await channel.list(path, recursive=flag(request, "recursive"))
    return json_answer({"entries": [one.model_dump() for one in found]})


async def make_dir(request: Request) -> Answer:
    """Makes a folder, and those above it."""
    path, channel = await target(request)
    await channel.make_dir(path, mode=octal(request, "mode"))
    return json_answer({"path": path}, 201)


async def put_tree(request: Request) -> Answer:
    """Unpacks a tar archive into a folder."""
    path, channel = await target(request)
    entry = request.entry()
    max_bytes = entry.spec.limits.disk or request.caller.grant.max_disk
    count, size = await unpack_tree(channel, path, request.chunks(IDLE_SECONDS), max_bytes)
    request.broker.audit.note("put_tree", sandbox=entry.id, instance=entry.instance, entries=count, bytes=size)
    return json_answer({"path": path, "entries": count, "bytes": size}, 201)


async def get_tree(request: Request) -> Stream:
    """A folder as a tar archive."""
    path, channel = await target(request)
    top: FileInfo = await channel.stat(path)
    if top.kind != "dir":
        raise RequestRefused(f"{path} is not a directory: GET …/files returns its bytes", 422)
    return Stream(pack_tree(channel, path), TAR)


async def target(request: Request) -> tuple[str, Channel]:
    path = request.query.get("path", "")
    if not path or "\0" in path:
        raise RequestRefused("path: say which, as ?path=/app/file", 422)
    user = request.query.get("user") or None
    check_user(user)
    return path, await request.entry().channel_for(user)


async def read_pieces(channel: Channel, path: str, offset: int, length: int | None) -> AsyncIterator[bytes]:
    left = length
    while left is None or left > 0:
        size = PIECE if left is None else min(PIECE, left)
        piece = await channel.read_file(path, offset=offset, length=size)
        if piece:
            yield piece
        if len(piece) < size:
            return
        offset += len(piece)
        left = None if left is None else left - len(piece)


def wanted_range(request: Request) -> tuple[int, int | None]:
    header = request.header("range")
    if header:
        match = RANGE.match(header)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise RolloutError("row", "range: write bytes=FROM-TO or bytes=FROM-", retryable=False, status=416)
        return int(match[1]), int(match[2]) - int(match[1]) + 1 if match[2] else None
    offset, length = request.query.get("offset", "0"), request.query.get("length", "")
    if not offset.isdecimal() or not (length.isdecimal() or not length):
        raise RequestRefused("offset and length: numbers of bytes", 422)
    return int(offset), int(length) if length else None


def octal(request: Request, name: str) -> int | None:
    given = request.query.get(name)
    if given is None:
        return None
    if not re.fullmatch(r"0?[0-7]{1,4}", given):
        raise RequestRefused(f"{name}: octal digits, as 644", 422)
    return int(given, 8)


def flag(request: Request, name: str) -> bool:
    return request.query.get(name, "") not in ("", "0", "false")


ROUTES: dict[str, Handler] = {
    "PUT /sandboxes/*/files": put_file,
    "GET /sandboxes/*/files": get_file,
    "DELETE /sandboxes/*/files": delete_file,
    "GET /sandboxes/*/stat": stat,
    "GET /sandboxes/*/list": list_files,
    "POST /sandboxes/*/dirs": make_dir,
    "PUT /sandboxes/*/tree": put_tree,
    "GET /sandboxes/*/tree": get_tree,
}
