"""A web in a file: pages and search results as they once were. The same answers on every machine, without a network.

A line is `{"url", "title", "html"}` or `{"query", "results"}`; any other query is answered by ranking pages.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from page_text import extract

from gym.errors import UserError

MAX_RESULTS = 10
SNIPPET = 200
_WORD = re.compile(r"\w+")
_STOP = "a an and are as at by for from how in is it of on or that the to was were what when which who with"
_STOPS = frozenset(_STOP.split())


class RecordedWeb:
    def __init__(self, path: Path) -> None:
        self._searches: dict[str, dict[str, Any]] = {}
        self._pages: dict[str, dict[str, Any]] = {}
        for number, line in enumerate(_read(path).splitlines(), 1):
            if line.strip():
                self._add(line, f"{path}:{number}")
        texts = {key: f"{page.get('title', '')} {extract(page['html'])}" for key, page in self._pages.items()}
        self._texts = texts
        self._words = {key: Counter(_words(text)) for key, text in texts.items()}

    async def search(self, query: str) -> dict[str, Any]:
        if (recorded := self._searches.get(_plain(query))) is not None:
            return recorded
        found = [self._result(key) for key in self._rank(query)]
        asked = {"searchTerms": query, "count": len(found), "totalResults": str(len(found))}
        reply: dict[str, Any] = {"kind": "customsearch#search", "queries": {"request": [asked]}}
        return {**reply, "items": found} if found else reply

    async def fetch(self, address: str) -> str | None:
        page = self._pages.get(_plain_url(address))
        return page["html"] if page else None

    async def close(self) -> None:
        """Nothing is open."""

    def _add(self, line: str, place: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise UserError(f"{place}: not JSON: {error}", "write one JSON object a line") from None
        if isinstance(entry, dict) and isinstance(entry.get("query"), str) and isinstance(entry.get("results"), dict):
            self._searches[_plain(entry["query"])] = entry["results"]
        elif isinstance(entry, dict) and isinstance(entry.get("url"), str) and isinstance(entry.get("html"), str):
            self._pages[_plain_url(entry["url"])] = entry
        else:
            raise UserError(f"{place}: neither a page nor a search", 'write {"url", "html"} or {"query", "results"}')

    def _rank(self, query: str) -> list[str]:
        """Pages by the words they share with the query; rare words weigh more, repeated ones hardly."""
        wanted = set(_words(query))
        pages = len(self._words)
        spread = {word: sum(word in counts for counts in self._words.values()) for word in wanted}
        scores = {
            key: sum(
                math.log(1 + pages / spread[word]) * counts[word] / (counts[word] + 1.0)
                for word in wanted & counts.keys()
            )
            for key, counts in self._words.items()
        }
        best = sorted((key for key, score in scores.items() if score > 0), key=lambda key: (-scores[key], key))
        return best[:MAX_RESULTS]

    def _result(self, key: str) -> dict[str, str]:
        page = self._pages[key]
        snippet = page.get("snippet") or " ".join(self._texts[key].split())[:SNIPPET]
        return {"title": str(page.get("title") or page["url"]), "link": page["url"], "snippet": str(snippet)}


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.casefold()) if word not in _STOPS]


def _plain(query: str) -> str:
    return " ".join(query.casefold().split())


def _plain_url(address: str) -> str:
    """Without scheme, fragment and a slash at the end."""
    return address.strip().partition("#")[0].partition("://")[2].rstrip("/").casefold()


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "name a file of recorded pages, or set google_api_key and google_cx"
        raise UserError(f"recorded: {path} cannot be read: {error}", hint) from None
