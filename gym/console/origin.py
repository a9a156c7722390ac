"""Where the caller stands: the address by which it reached the router, or, asked directly, the router's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from gym.labels import ROUTER_PORT

# A header that a stranger wrote ends up in a document that others act on: letters, digits, dots and dashes, or nothing.
HOST = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)(?::(?P<port>\d{1,5}))?"
)
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Origin:
    host: str
    port: int
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def find_origin(headers: Mapping[str, str], router: str) -> Origin:
    """Traefik writes X-Forwarded-Host itself and drops a client's own: with it, we were asked through the router."""
    own = _from_url(router)
    if "x-forwarded-host" in headers or own is None:
        scheme = "https" if headers.get("x-forwarded-proto") == "https" else "http"
        asked = _from_host(headers.get("x-forwarded-host") or headers.get("host", ""), scheme)
        return asked or own or Origin("127.0.0.1", ROUTER_PORT)
    return own


def _from_host(text: str, scheme: str) -> Origin | None:
    found = HOST.fullmatch(text)
    if found is None:
        return None
    port = int(found["port"] or DEFAULT_PORTS[scheme])
    return Origin(found["host"], port, scheme) if 0 < port < 65536 else None


def _from_url(url: str) -> Origin | None:
    parts = urlsplit(url)
    return _from_host(parts.netloc, parts.scheme) if parts.scheme in DEFAULT_PORTS else None
