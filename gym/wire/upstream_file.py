"""The provider of a model server when it was set at run time: the file that the console writes and replicas read.

It holds a key, so it lies where only the console and the replicas of that one model can read it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

FILE = "upstreams.json"
MAX_URLS = 1024


class Upstreams(BaseModel):
    """Read tolerantly by replicas of another version."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    version: int = 0  # grows with every change
    base_urls: tuple[str, ...] = Field(min_length=1, max_length=MAX_URLS)
    api_key: str = Field(default="", repr=False)
    model: str = ""
    headers: dict[str, str] = Field(default_factory=dict, repr=False)

    @field_validator("base_urls", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("base_urls")
    @classmethod
    def _are_http(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        urls = tuple(dict.fromkeys(url.strip().rstrip("/") for url in value))
        for url in urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("each is an http(s) address, for example http://127.0.0.1:8000/v1")
            if "@" in parts.netloc or parts.query or parts.fragment:
                raise ValueError("an address has no password and no query in it; a key goes into `api_key`")
        return urls


def origin_of(url: str) -> tuple[str, str, int | None]:
    """What decides whether a key may go there."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port
