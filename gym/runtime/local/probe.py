"""Asks a server whether it is healthy.

By `gym.http`: httpx would add 6 MB to a supervisor of 40, and 75 ms to its start.
"""

from __future__ import annotations

import asyncio
import os

import orjson

from gym.http.pool import HttpClient, NotSent, Reply
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
            reply = await _ask(address, path, token, connect_seconds=timeout + 1)  # `timeout` ends it first
    except TimeoutError:
        return f"no answer on {path} within {timeout:g} s"
    except NotSent as error:
        errno = getattr(error.__cause__, "errno", None)
        return f"no answer on {path}: {os.strerror(errno) if errno else error}"
    except ConnectionError:
        return f"no HTTP answer on {path}"
    return (_said(reply.body) or f"status {reply.status} on {path}") if reply.status in wrong else ""


def _said(body: bytes) -> str:
    """The words of a server whose event loop is blocked: they name the line."""
    try:
        message = str(orjson.loads(body)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return ""
    return message[:LONGEST] if message.startswith(BLOCKED) else ""


async def _ask(address: tuple[str, int], path: str, token: str, *, connect_seconds: float) -> Reply:
    """Over a connection of its own, so that a server which accepts no more is noticed."""
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    headers = [(b"Connection", b"close"), (b"User-Agent", b"gym-health")]
    if token:
        headers.append((b"Authorization", f"Bearer {token}".encode()))
    client = HttpClient(asks_health=False, connect_seconds=connect_seconds)
    try:
        return await client.request("GET", f"http://{host}:{address[1]}{path}", headers=headers)
    finally:
        await client.aclose()
