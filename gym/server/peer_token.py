"""Servers that other machines can reach ask for the token of their stack; without one they ask no caller.

Loopback and a container's own network need none: `gym.labels.ENV_PEER_TOKEN` is set where replicas listen wider.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from gym.labels import ENV_PEER_TOKEN, HEADER_PEER

HEADER: Final = HEADER_PEER.encode()
OPEN: Final = "/healthz"  # says nothing but whether it is ready
REFUSAL: Final = (
    b'{"error": {"kind": "row", "retryable": false,'
    b' "message": "this server answers its own stack alone: ask its router"}}'
)


def peer_headers(environ: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    """What a server sends to the others of its stack, and to no other."""
    token = environ.get(ENV_PEER_TOKEN, "")
    return ((HEADER, token.encode()),) if token else ()


def is_stranger(scope: Mapping[str, Any], token: str) -> bool:
    if not token or scope["type"] not in ("http", "websocket") or scope["path"] == OPEN:
        return False
    return not hmac.compare_digest(_sent(scope["headers"]), token.encode())


def _sent(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return next((value for key, value in headers if key == HEADER), b"")


async def refuse_stranger(scope: Mapping[str, Any], send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(REFUSAL)).encode())]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": REFUSAL})
