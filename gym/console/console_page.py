"""The page as it is served: one file, nothing from elsewhere, and a policy under which nothing else can run."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

TAGS: Final = {
    "style": re.compile(r"<style>(.*?)</style>", re.S),
    "script": re.compile(r"<script>(.*?)</script>", re.S),
}


@dataclass(frozen=True)
class Page:
    html: str
    headers: dict[str, str]


def load_page() -> Page:
    html = files("gym.console").joinpath("page.html").read_text(encoding="utf-8")
    sources = inline_sources(html)
    policy = (
        f"default-src 'none'; style-src {sources['style']}; script-src {sources['script']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Page(html, {"content-security-policy": policy, "referrer-policy": "no-referrer"})


def inline_sources(html: str) -> dict[str, str]:
    """What a policy has to name so that the page's own style and script, and no other, run."""
    return {tag: " ".join(_hash(text) for text in pattern.findall(html)) for tag, pattern in TAGS.items()}


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
