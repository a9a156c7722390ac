"""scripts/docs builds the site: strictly, and of pages that ask no other host for anything."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?P<src>[^"'\s>]+)|<link\b(?P<link>[^>]*)>""", re.I
)
CSS_URL = re.compile(r"""(?:url\(|@import\s+)["']?(https?:)?//""", re.I)


def test_the_site_is_built_without_a_broken_link_and_asks_no_other_host() -> None:
    done = subprocess.run([ROOT / "scripts" / "docs"], capture_output=True, text=True, timeout=570, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("index.html", "docs/tour.html", "docs/reference/http.html", "servers/resources/mcqa/index.html"):
        assert (SITE / name).is_file(), name
    for page in SITE.rglob("*.html"):
        assert foreign(page.read_text("utf-8")) == [], page
    assert [sheet for sheet in SITE.rglob("*.css") if CSS_URL.search(sheet.read_text("utf-8"))] == []


def foreign(page: str) -> list[str]:
    """What a browser would fetch from another host by itself."""
    found = [one["src"] or one["link"] for one in FETCHED.finditer(page)]
    return [one for one in found if re.search(r"(?:^|href=[\"']?)(?:https?:)?//", one)]


def test_what_a_browser_would_fetch_from_elsewhere_is_found() -> None:
    assert foreign('<script src="https://a.example/x.js">') == ["https://a.example/x.js"]
    assert len(foreign('<link rel="stylesheet" href="//b.example/x.css">')) == 1
    assert foreign('<a href="https://c.example/">words</a><script src="../x.js"></script><link href="x.css">') == []
