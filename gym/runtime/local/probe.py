"""Asks a server whether it is healthy: one small request over a raw connection, since it is asked all day."""

from __future__ import annotations

import asyncio
import contextlib
import os

import orjson

from gym.labels import BLOCKED

LONGEST = 500
SILENCE = ("no answer", "no HTTP answer")  # how a reason begins where no answer came at all
ONLY_OK = frozenset(range(100, 600)) - {200}


async def probe(
    address: tuple[str, int], path: str, *, wrong: frozenset[int] = ONLY_OK, timeout: float, token: str = ""
) -> str:
    """Empty when it is healthy, else why not. `wrong` are statuses of one that is not; none: any answer will do."""
    try:
        async with asyncio.timeout(timeout):
            status, body = await _ask(address, _request(address, path, token))
    except TimeoutError:
        return f"no answer on {path} within {timeout:g} s"
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        return f"no answer on {path}: {reason}"
    if not status:
        return f"no HTTP answer on {path}"
    return (_said(body) or f"status {status} on {path}") if status in wrong else ""


def _said(body: bytes) -> str:
    """The words of a server whose event loop is blocked: they name the line."""
    try:
        message = str(orjson.loads(body)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return ""
    return message[:LONGEST] if message.startswith(BLOCKED) else ""


def _request(address: tuple[str, int], path: str, token: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {address[0]}:{address[1]}", "Connection: close", "User-Agent: gym-health"]
    return "\r\n".join([*lines, *([f"Authorization: Bearer {token}"] if token else []), "", ""]).encode()


async def _ask(address: tuple[str, int], request: bytes) -> tuple[int, bytes]:
    """Status, and the first of the body."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(request)
        line = await reader.readline()
        if not line.startswith(b"HTTP/"):
            return 0, b""
        # What follows is read to its end: closed early, the server would log a broken pipe.
        rest = b""
        while more := await reader.read(65536):
            rest = (rest + more)[:65536]
        return int(line.split()[1]), rest.partition(b"\r\n\r\n")[2]
    except (ValueError, IndexError):
        return 0, b""
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
