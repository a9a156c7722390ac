"""What a provider's reply says: its JSON, or the words of a refusal, when to retry, whether a prompt was too long."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any

import orjson

from gym.wire.unread import read_with_items

LONGEST_WISH = 3600.0  # a Retry-After beyond it, or a negative one, is none


def parse_reply(body: bytes) -> Any:
    """None where it is not JSON."""
    try:
        return read_with_items(body, "model")
    except orjson.JSONDecodeError:
        return None


def upstream_words(body: bytes) -> str:
    """What a provider says in an error: `error.message`, `message`, `detail`, or the text itself."""
    parsed = parse_reply(body)
    if isinstance(parsed, dict):
        error = parsed.get("error", parsed)
        if isinstance(error, dict):
            error = error.get("message") or error.get("detail") or error
        return error if isinstance(error, str) else orjson.dumps(error).decode()[:1000]
    return body[:1000].decode("utf-8", "replace").strip()


def is_overflow(words: str) -> bool:
    """No room for an answer. "Unsupported parameter: 'max_tokens'" names the word too and is something else."""
    said = words.lower()
    if any(words in said for words in ("context length", "context_length", "maximum model length")):
        return True
    return "max_tokens" in said and not any(
        word in said for word in ("unsupported", "not supported", "unknown", "extra")
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; both spellings of `Retry-After` and the one in milliseconds. 0 for a time that cannot be meant."""
    try:
        if "retry-after-ms" in headers:
            return _plausible(float(headers["retry-after-ms"]) / 1000)
        return _plausible(float(headers["retry-after"]))
    except KeyError:
        return None
    except ValueError:
        return _seconds_until(headers.get("retry-after", ""))


def _seconds_until(date: str) -> float | None:
    try:
        moment = email.utils.parsedate_tz(date)
        return _plausible(email.utils.mktime_tz(moment) - time.time()) if moment else None
    except (ValueError, OverflowError):
        return None


def _plausible(seconds: float) -> float:
    return seconds if 0 <= seconds <= LONGEST_WISH else 0.0
