"""Routers in front of all others: what a page of another site made a browser send goes to the console to be refused.

Programs pay for a few looks at headers. Only what carries an Origin, so a browser, is asked about: a rule cannot
compare two headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from gym import labels
from gym.wire.foreign_pages import BODILESS, FOREIGN_SITES, JSON_TYPE, LOOPBACK, NEAR

Tree = dict[str, Any]

FIRST: Final = 1_000_000  # above the priority of every rule that has none: its length
SAME_ORIGIN: Final = "same-origin"
WITH_ORIGIN: Final = "HeaderRegexp(`Origin`, `.*`)"  # an empty one too


def refusing_routers(entry_point: str, name_end: str, service: str, *, hosts: str) -> Tree:
    """`hosts` is a pattern; "" where any name may lead here, since a token is asked for."""
    rules = {"page": _foreign_page(), "body": _not_json()}
    if hosts:
        rules = {"host": f"!HostRegexp(`{_whole(hosts)}`)", **rules}
    return {
        f"gym-refused-{why}{name_end}": {
            "entryPoints": [entry_point],
            "rule": rule,
            "priority": FIRST * (len(rules) - at),
            "middlewares": [f"refused-{why}"],
            "service": service,
        }
        for at, (why, rule) in enumerate(rules.items())
    }


def refusing_middlewares(console: str) -> Tree:
    asked: Tree = {"address": f"{console}/same-origin", "trustForwardHeader": False, "maxResponseBodySize": 65536}
    refused = {f"refused-{why}": {"replacePath": {"path": f"/refused/{why}"}} for why in ("host", "page", "body")}
    return {**refused, SAME_ORIGIN: {"forwardAuth": asked}}


def known_hosts(*, loopback: bool, names: Iterable[str]) -> str:
    """The pattern of what this machine answers to, and of `names`."""
    return "|".join((LOOPBACK if loopback else NEAR, *(re.escape(name) for name in names)))


def _foreign_page() -> str:
    """A link may lead to the console, and nothing else of a foreign page may lead anywhere."""
    foreign = " || ".join(f"Header(`Sec-Fetch-Site`, `{site}`)" for site in sorted(FOREIGN_SITES))
    visit = "Method(`GET`) && Header(`Sec-Fetch-Mode`, `navigate`) && Header(`Sec-Fetch-Dest`, `document`)"
    return f"({foreign}) && (PathPrefix(`{labels.SERVER_PREFIX}`) || !({visit}))"


def _not_json() -> str:
    """A chunked body without a type passes here, since a rule cannot see it; browsers always give the length."""
    bodiless = " || ".join(f"Method(`{one}`)" for one in sorted(BODILESS))
    body = "HeaderRegexp(`Content-Type`, `.*`) || HeaderRegexp(`Content-Length`, `.*`)"
    json = f"HeaderRegexp(`Content-Type`, `(?i)^(?:{JSON_TYPE})$`)"
    return f"!{json} && !({bodiless}) && ({body}) && !Header(`Content-Length`, `0`)"


def _whole(pattern: str) -> str:
    """A dot may end a name."""
    return f"(?i)^(?:{pattern})\\.?$"
