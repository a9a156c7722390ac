"""The page as one file that carries its rollouts, under a policy by which nothing but its own parts can run."""

from __future__ import annotations

from typing import Final

from gym.console.pages.inline_sources import inline_sources
from gym.console.pages.shell import Section, fill_file
from gym.console.viewer.app import SCRIPTS, STYLES

DATA_OPENS: Final = b'<script id="data" type="application/json">'
SECTION: Final = Section("rollouts", "Rollouts", "gym.console.viewer", SCRIPTS, STYLES)


def make_file(data: bytes) -> bytes:
    """`data` is JSON."""
    html = fill_file(SECTION)
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
