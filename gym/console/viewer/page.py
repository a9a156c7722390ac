"""The page put together from its parts, under a policy by which nothing but them can run or be fetched.

The same page is served, and written as a file that carries its rollouts.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from gym.console.console_page import Page, inline_sources

DATA_OPENS: Final = b'<script id="data" type="application/json">'
SCRIPTS: Final = ("source.js", "rollout.js", "page.js")


def load_page() -> Page:
    """As it is served: it asks its own server for everything."""
    html = _put_together()
    policy = f"{_policy(html)}; connect-src 'self'; frame-ancestors 'none'"
    return Page(html, {"content-security-policy": policy, "referrer-policy": "no-referrer"})


def make_file(data: bytes) -> bytes:
    """As a file that works by itself; `data` is JSON."""
    html = _put_together()
    meta = f'<meta http-equiv="content-security-policy" content="{_policy(html)}">'
    head, body = html.replace("<!-- policy -->", meta, 1).encode().split(b"<!-- data -->", 1)
    # In JSON a < stands only within texts, so that this is the same document and cannot end its element.
    return head + DATA_OPENS + data.replace(b"<", b"\\u003c") + b"</script>" + body


def _policy(html: str) -> str:
    sources = inline_sources(html)
    return (
        f"default-src 'none'; style-src {sources['style']}; script-src {sources['script']}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _put_together() -> str:
    html = _read("page.html").replace("/* page.css */", _read("page.css"), 1)
    return html.replace("/* page.js */", "".join(map(_read, SCRIPTS)), 1)


def _read(name: str) -> str:
    return files("gym.console.viewer").joinpath(name).read_text("utf-8")
