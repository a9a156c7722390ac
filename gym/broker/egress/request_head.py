"""Reads the head of an HTTP/1 request, strictly: what can be read in two ways is a way around. Pure."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from gym.broker.egress.destinations import EgressDenied
from gym.http.streams import request_head
from gym.wire.addresses import plain_host

TOKEN: Final = re.compile(rb"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
UNPRINTABLE: Final = re.compile(rb"[^!-~]")
AUTHORITY: Final = re.compile(r"^(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\s]+)(?::(?P<port>\d{1,5}))?$")
# Between two neighbours only; whatever `connection` names goes as well.
HOP: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"trailer", b"upgrade")
)
Body = int | Literal["chunked"]


class HostPort(NamedTuple):
    host: str
    port: int


class HttpRequest(NamedTuple):
    method: bytes
    target: HostPort
    path: bytes  # what is sent on; b"" of a CONNECT
    headers: tuple[tuple[bytes, bytes], ...]
    body: Body = 0

    @property
    def connects(self) -> bool:
        return self.method == b"CONNECT"

    def head(self) -> bytes:
        """As it is sent on: the host that was checked, and one request a connection, for the next may name another."""
        host = b"[%b]" % self.target.host.encode() if ":" in self.target.host else self.target.host.encode()
        named = host if self.target.port == 80 else b"%b:%d" % (host, self.target.port)
        headers = ((b"host", named), *self.headers, (b"connection", b"close"))
        return request_head(self.method.decode(), self.path, headers)


def read_request(head: bytes, *, proxied: bool, port: int = 80) -> HttpRequest:
    """`head` ends with its empty line. `proxied`: in the absolute form a proxy is asked in; else `host` says it."""
    first, *lines = head[:-4].split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not TOKEN.match(words[0]) or words[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise EgressDenied("what is spoken is not HTTP/1")
    if UNPRINTABLE.search(words[1]):  # a lone line break: some servers end the line there, and read another `host`
        raise EgressDenied("the URI of a request is plain ASCII")
    headers = [_header(line) for line in lines]
    if words[0] == b"CONNECT":
        return HttpRequest(words[0], _authority(words[1], None), b"", ())
    target, path = _absolute(words[1]) if proxied else (None, words[1])
    named = [value for name, value in headers if name == b"host"]
    if len(named) > 1 or (not named and target is None):
        raise EgressDenied("a request has one `host`")
    said = _authority(named[0], target.port if target and b":" not in named[0] else port) if named else target
    if said is None or (target is not None and said != target):
        raise EgressDenied("the `host` of the request is not the host of its URI")
    if not path.startswith(b"/") and path != b"*":
        raise EgressDenied("the request names no path")
    return HttpRequest(words[0], said, path, tuple(_passed_on(headers)), _body(headers))


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    value = value.strip(b" \t")
    if not colon or not TOKEN.match(name) or any(byte in value for byte in (b"\r", b"\n", b"\0")):
        raise EgressDenied("a header that can be read in two ways")
    return name.lower(), value


def _absolute(uri: bytes) -> tuple[HostPort, bytes]:
    scheme, found, rest = uri.partition(b"://")
    if not found or scheme.lower() != b"http":
        raise EgressDenied("a proxy is asked by `http://HOST/...`, or by CONNECT")
    at = min((place for mark in b"/?#" if (place := rest.find(mark)) >= 0), default=len(rest))
    path = rest[at:].partition(b"#")[0]
    return _authority(rest[:at], 80), path if path.startswith(b"/") else b"/" + path


def _authority(text: bytes, port: int | None) -> HostPort:
    found = AUTHORITY.match(text.decode("ascii", "replace"))
    host = plain_host(found["host"]) if found else ""
    number = int(found["port"]) if found and found["port"] else port
    if not host or number is None or not 0 < number < 65536:
        raise EgressDenied("no HOST:PORT that can be read in one way only")
    return HostPort(host, number)


def _passed_on(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    dropped = {one.strip().lower() for name, value in headers if name == b"connection" for one in value.split(b",")}
    dropped -= {b"content-length", b"transfer-encoding"}
    return [pair for pair in headers if pair[0] not in HOP and pair[0] != b"host" and pair[0] not in dropped]


def _body(headers: list[tuple[bytes, bytes]]) -> Body:
    lengths = [value for name, value in headers if name == b"content-length"]
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if len(lengths) > 1 or len(codings) > 1 or (lengths and codings) or codings not in ([], [b"chunked"]):
        raise EgressDenied("a body whose length can be read in two ways")
    if codings:
        return "chunked"
    if not lengths:
        return 0
    if not re.fullmatch(rb"\d{1,15}", lengths[0]):
        raise EgressDenied("a body whose length can be read in two ways")
    return int(lengths[0])
