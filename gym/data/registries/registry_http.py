"""One request to a registry, or to where it redirects. The environment's proxies and this machine's CAs are used."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx

_SILENCE: Final = 60.0  # seconds without a byte
_MAX_ERROR: Final = 1 << 16


class NotSuccess(Exception):
    """The registry answered, and its status is not a success."""

    def __init__(self, status: int, retry_after: str | None, body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.retry_after = retry_after
        self.body = body


@contextmanager
def open_reply(
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    authorization: str = "",
    content: bytes | Iterable[bytes] = b"",
) -> Iterator[httpx.Response]:
    """A success, its body unread; a connection that fails, then or while it is read, is a `ConnectionError`.

    `authorization` is for `url` alone. An upload or a removal is not sent on to where a redirect points.
    """
    import httpx  # noqa: PLC0415 (40 ms, and most commands of `gym data` ask no registry)

    sent = {"Accept-Encoding": "identity", **headers, **({"Authorization": authorization} if authorization else {})}
    try:
        with (
            httpx.Client(verify=_system_cas(), timeout=_SILENCE, event_hooks={"response": [_forget_token]}) as client,
            client.stream(
                method, url, headers=sent, content=content, follow_redirects=method in ("GET", "POST")
            ) as reply,
        ):
            if not reply.is_success:
                raise NotSuccess(reply.status_code, reply.headers.get("Retry-After"), read_up_to(reply, _MAX_ERROR))
            yield reply
    except (httpx.HTTPError, httpx.InvalidURL, ImportError) as error:  # a SOCKS proxy needs one package more
        raise ConnectionError(str(error) or type(error).__name__) from error


def read_up_to(reply: httpx.Response, max_bytes: int) -> bytes:
    raw = bytearray()
    for chunk in reply.iter_bytes():
        raw += chunk
        if len(raw) >= max_bytes:
            break
    return bytes(raw[:max_bytes])


def _forget_token(reply: httpx.Response) -> None:
    """A redirected request is made of this one's headers, and would take the token along within one host."""
    reply.request.headers.pop("Authorization", None)


@cache
def _system_cas() -> ssl.SSLContext:
    """httpx has a list of CAs of its own, where a company's is not."""
    return ssl.create_default_context()
