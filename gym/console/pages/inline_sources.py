"""What a policy has to name so that the scripts and styles inside a page run, and no others."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

TAGS: Final = {
    "style": re.compile(r"<style>(.*?)</style>", re.S),
    "script": re.compile(r"<script>(.*?)</script>", re.S),
}


def inline_sources(html: str) -> dict[str, str]:
    """As the values of style-src and script-src."""
    return {tag: " ".join(_hash(text) for text in pattern.findall(html)) for tag, pattern in TAGS.items()}


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
