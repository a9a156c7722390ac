"""Separates requests that a foreign web page could make a browser send to this machine from those of programs.

Patterns are read by Python and by the router (RE2); they match a whole value, whatever its case.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

Why = Literal["host", "name", "page", "body"]

# Only this machine can serve a page under these names: browsers resolve them without asking a name server. The last one
# is this machine as its containers see it.
LOOPBACK: Final = r"localhost|[a-z0-9._-]+\.localhost|127(?:\.[0-9]{1,3}){3}|::1|host\.docker\.internal"
# The same holds for addresses. Names without a dot are not among these: a neighbour in the network can have them.
NEAR: Final = LOOPBACK + r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-f:.]*:[0-9a-f:.]*"
# None of these is among the types that a page may send elsewhere without asking first.
JSON_TYPE: Final = (
    r"\s*application/(?:json|[a-z0-9.!#$&^_-]+\+json|(?:x-)?ndjson|(?:x-)?jsonl|(?:x-)?jsonlines)\s*(?:;.*)?"
)
BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
FOREIGN_SITES: Final = frozenset({"cross-site", "same-site"})  # values that browsers send in Sec-Fetch-Site

# Names that only a stack, an engine or a hosts file gives. A server open to a network has its neighbours in it anyway.
INNER: Final = NEAR + r"|[a-z0-9_-]+"

_LOOPBACK = re.compile(LOOPBACK, re.IGNORECASE)
_NEAR = re.compile(NEAR, re.IGNORECASE)
_INNER = re.compile(INNER, re.IGNORECASE)
_JSON = re.compile(JSON_TYPE, re.IGNORECASE)


class Refusal(NamedTuple):
    status: int
    text: str


def is_loopback_host(host: str) -> bool:
    return _LOOPBACK.fullmatch(name_of_host(host)) is not None


def is_near_host(host: str) -> bool:
    return _NEAR.fullmatch(name_of_host(host)) is not None


def is_inner_host(host: str, known: Collection[str] = ()) -> bool:
    """A name without a dot, an address, or one of `known`: whole names, suffixes (`.cluster.local`) or `*`. A
    foreign page that made its name resolve to us has a name with a dot."""
    name = name_of_host(host).lower()
    return _INNER.fullmatch(name) is not None or any(
        one in (name, "*") or (one.startswith(".") and name.endswith(one)) for one in known
    )


def name_of_host(host: str) -> str:
    """`[::1]:8000` is `::1`, `localhost.:80` is `localhost`."""
    if host.startswith("["):
        return host[1:].partition("]")[0] if re.fullmatch(r"\[[^\]]*\](?::\d*)?", host) else host
    name = host.rpartition(":")[0] if host.count(":") == 1 else host
    return name.removesuffix(".")


def is_json_type(content_type: str) -> bool:
    return _JSON.fullmatch(content_type) is not None


def is_same_origin(origin: str, *hosts: str) -> bool:
    """Whether the page has the address that it asks for. Ports count: another port is another program."""
    try:
        netloc = urlsplit(origin).netloc.lower()
    except ValueError:
        return False
    return bool(netloc) and netloc in {host.lower() for host in hosts}


def is_foreign_site(method: str, headers: Mapping[str, str], *, pages: bool) -> bool:
    """What the browser itself says: images, forms and plain GETs carry no Origin. With `pages` a link may lead here."""
    if headers.get("sec-fetch-site", "").lower() not in FOREIGN_SITES:
        return False
    visit = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    return not (pages and visit and method == "GET")


def refusal_words(why: Why, headers: Mapping[str, str]) -> Refusal:
    """The reply to a refused request: why, and what to type instead."""
    if why == "host":
        asked = headers.get("x-forwarded-host") or headers.get("host", "")
        return Refusal(403, _HOST.format(asked=asked[:200]))
    if why == "name":
        asked = headers.get("host", "")[:200]
        return Refusal(403, _NAME.format(asked=asked, name=name_of_host(asked)))
    if why == "page":
        return Refusal(403, _PAGE.format(page=headers.get("origin", "another site")[:200]))
    return Refusal(415, _BODY.format(found=headers.get("content-type", "")[:200] or "none"))


_HOST = (
    "asked as {asked!r}: this stack listens to this machine alone, so it answers to localhost and 127.0.0.1 only; any "
    "other name may be a foreign page's. Ask http://localhost:PORT; a proxy of yours sends `Host: localhost` (nginx: "
    "proxy_set_header Host localhost); other machines need `gym up --bind 0.0.0.0 --token-file token.txt`"
)
_NAME = (
    "asked as {asked!r}: a server answers to addresses, to names without a dot and to those it was given; any other "
    "may be a foreign page's. Ask by its address, or start it with GYM_HOSTS={name} (several with commas, .example for "
    "all below it; in a stack: `env: {{GYM_HOSTS: {name}}}` in the instance's config)"
)
_PAGE = (
    "a browser asks for {page}: pages of other sites may not use this stack. Ask from a program without an Origin "
    "header, or from a page of the stack's own address"
)
_BODY = (
    "a body has to be JSON and to say so, its Content-Type: {found}. Add -H 'content-type: application/json', or for "
    "one row a line -H 'content-type: application/x-ndjson' (curl's --data says that it is a form)"
)
