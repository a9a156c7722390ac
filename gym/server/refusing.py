"""In front of every app that `serve` runs: refuses what a page of another site made a browser send.

Names asked for, origins and kinds of bodies: a page whose name was made to mean an address of ours is foreign too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from gym.labels import HEADER_ERROR
from gym.server.asgi import Answer, App, Receive, Scope, Send, send_answer
from gym.wire.failures import RolloutError
from gym.wire.foreign_pages import (
    BODILESS,
    Why,
    is_foreign_site,
    is_inner_host,
    is_json_type,
    is_loopback_host,
    is_near_host,
    is_same_origin,
    name_of_host,
    refusal_words,
)

MAX_KNOWN: Final = 64  # values that were found good, so that most requests pay for a look-up and no more


@dataclass(frozen=True)
class Rules:
    pages: bool = False  # it has pages for people: a link elsewhere may lead to them
    near: bool = False  # wherever it is bound, it is asked by an address or by its own name
    tokens: bool = False  # every request carries a token, which no page can send: any name and kind of body may come


PROGRAMS: Final = Rules()


class Refusing:
    """ASGI. `__call__` is not a coroutine: a request that passes costs no frame of ours while it is served."""

    def __init__(
        self, app: App, name: str, *, loopback: bool, rules: Rules = PROGRAMS, hosts: Collection[str] = ()
    ) -> None:
        """`hosts` are names with a dot by which it may be asked where its socket is not this machine's alone."""
        self._app = app
        self._name = name
        self._rules = rules
        self._is_ours = _host_rule(name, loopback, rules, hosts)
        self._why: Why = "host" if loopback or rules.near else "name"
        self._hosts: set[bytes] = set()
        self._types: set[bytes | None] = {b"application/json"}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "lifespan":
            found: dict[bytes, bytes] = dict(scope["headers"])
            why = self._find_fault(scope, found)
            if why is not None:
                return self._refuse(scope, why, found, send)
        return self._app(scope, receive, send)

    def _find_fault(self, scope: Scope, found: dict[bytes, bytes]) -> Why | None:
        if self._is_ours is not None and found.get(b"host") not in self._hosts and not self._learn_host(found):
            return self._why
        if (b"origin" in found or b"sec-fetch-site" in found) and self._is_foreign(scope, found):
            return "page"
        if scope.get("method", "GET") in BODILESS or found.get(b"content-type") in self._types or self._rules.tokens:
            return None
        return None if self._learn_type(found) or not _has_body(found) else "body"

    def _learn_host(self, found: dict[bytes, bytes]) -> bool:
        """HTTP/1.0 may leave it out, browsers do not."""
        host = found.get(b"host")
        good = host is None or (self._is_ours is not None and self._is_ours(host.decode("latin-1")))
        if good and host is not None and len(self._hosts) < MAX_KNOWN:
            self._hosts.add(host)
        return good

    def _learn_type(self, found: dict[bytes, bytes]) -> bool:
        kind = found.get(b"content-type", b"")
        good = is_json_type(kind.decode("latin-1"))
        if good and len(self._types) < MAX_KNOWN:
            self._types.add(kind)
        return good

    def _is_foreign(self, scope: Scope, found: dict[bytes, bytes]) -> bool:
        """Every Origin counts, where there are several."""
        headers = _to_text(found)
        asked = (headers.get("host", ""), headers.get("x-forwarded-host", ""))
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        if not all(is_same_origin(origin, *asked) for origin in origins):
            return True
        return is_foreign_site(scope.get("method", "GET"), headers, pages=self._rules.pages)

    async def _refuse(self, scope: Scope, why: Why, found: dict[bytes, bytes], send: Send) -> None:
        words = refusal_words(why, _to_text(found))
        body = RolloutError("row", words.text, server=self._name).to_body()
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "status": words.status, "body": body})
            return
        await send_answer(send, Answer(body, words.status, ((HEADER_ERROR.encode(), b"row"),)))


def _host_rule(name: str, loopback: bool, rules: Rules, hosts: Collection[str]) -> Callable[[str], bool] | None:
    if loopback:
        return is_loopback_host
    if rules.near:
        return lambda host: is_near_host(host) or name_of_host(host) == name
    return None if rules.tokens else lambda host: is_inner_host(host, hosts)


def _has_body(found: dict[bytes, bytes]) -> bool:
    return b"transfer-encoding" in found or found.get(b"content-length", b"0").strip(b"0") != b""


def _to_text(found: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in found.items()}
