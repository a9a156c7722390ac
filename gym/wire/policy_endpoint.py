"""The endpoint that one rollout uses instead of the configured policy: `policy_base_url`, `policy_api_key`,
`policy_model_name` in the body of `/run`, and as headers between the servers of a stack. The key is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from pydantic_core import from_json

from gym.labels import (
    HEADER_POLICY_FOR,
    HEADER_POLICY_KEY,
    HEADER_POLICY_MODEL,
    HEADER_POLICY_URL,
    REDACTED,
)
from gym.wire.addresses import plain_host
from gym.wire.failures import RolloutError
from gym.wire.json_text import write_any_json, write_json

URL, KEY, MODEL = "policy_base_url", "policy_api_key", "policy_model_name"
FIELDS: Final = (URL, KEY, MODEL)
MAX_URLS, MAX_URL, MAX_KEY, MAX_MODEL = 64, 2048, 8192, 500
MIN_SECRET: Final = 8  # shorter keys ("EMPTY", "dummy") are ordinary words
EXAMPLE: Final = "write it as http://HOST:PORT/v1"
_PRINTABLE: Final = re.compile(r"[!-~]+")
_PATH: Final = re.compile(r"[!-~]*")


@dataclass(frozen=True, slots=True)
class PolicyEndpoint:
    """An empty field keeps the configured value; the configured key is never sent to a URL given here."""

    urls: tuple[str, ...] = ()
    key: str = field(default="", repr=False)
    model: str = ""
    replaces: str = ""  # the instance whose calls go there; "": the model of the server that reads this first

    def to_headers(self) -> list[tuple[bytes, bytes]]:
        pairs = (
            (HEADER_POLICY_URL, " ".join(self.urls)),
            (HEADER_POLICY_KEY, self.key),
            (HEADER_POLICY_MODEL, quote(self.model, safe="/:.@+-_~")),
            (HEADER_POLICY_FOR, quote(self.replaces)),
        )
        return [(name.encode(), value.encode("ascii")) for name, value in pairs if value]


def take_policy(fields: Mapping[str, Any]) -> PolicyEndpoint | None:
    """The endpoint that a body names; None where its fields are missing or null."""
    urls, key, model = (fields.get(name) for name in FIELDS)
    return None if urls is None and not key and model is None else _read(urls, key or "", model, "")


def policy_of_headers(headers: Iterable[tuple[bytes, bytes]]) -> PolicyEndpoint | None:
    found = {name: value.decode("latin-1") for name, value in headers if name.startswith(_PREFIX)}
    if not found:
        return None
    urls, model = found.get(_URL), found.get(_MODEL)
    replaces = unquote(found.get(_FOR, ""))
    return _read(urls.split(" ") if urls else None, found.get(_KEY, ""), unquote(model) if model else None, replaces)


def show_host(url: str) -> str:
    """`http://host:port/...` without what may be secret in it."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]
    except ValueError:
        return REDACTED


def mask_text(text: str, key: str) -> str:
    return text.replace(key, REDACTED) if len(key) >= MIN_SECRET else text


def mask_key(value: Any, key: str) -> Any:
    """JSON without this key: under its own field always, elsewhere if it is long enough to be a secret."""
    if isinstance(value, str):
        return mask_text(value, key)
    if isinstance(value, dict):
        return {
            mask_key(name, key): REDACTED if name == KEY and isinstance(one, str) and one else mask_key(one, key)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [mask_key(one, key) for one in value]
    return value


def mask_body(body: bytes, policy: PolicyEndpoint | None) -> bytes:
    """A reply of JSON without the key: an endpoint may have repeated it."""
    if policy is None or len(policy.key) < MIN_SECRET:
        return body
    if policy.key.encode() not in body and write_json(policy.key)[1:-1] not in body:
        return body
    return write_any_json(mask_key(from_json(body), policy.key))


@contextmanager
def masking(policy: PolicyEndpoint | None) -> Iterator[None]:
    """Masks the key in errors raised within: they go into replies and logs."""
    try:
        yield
    except Exception as error:
        if policy is not None and policy.key:
            error.args = tuple(mask_key(one, policy.key) for one in error.args)
            if isinstance(error, RolloutError):
                error.what = error.message = mask_text(error.message, policy.key)
        raise


def _read(urls: Any, key: Any, model: Any, replaces: str) -> PolicyEndpoint:
    found = PolicyEndpoint(_read_urls(urls), _read_key(key), _read_model(model), replaces)
    if found.key and not found.urls:
        raise RolloutError("row", f"{KEY}: a key without {URL}; name the endpoint that takes it")
    return found


def _read_urls(given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    urls = [given] if isinstance(given, str) else given
    if not isinstance(urls, list) or not urls or not all(isinstance(one, str) for one in urls):
        raise RolloutError("row", f"{URL}: a URL or a list of them is needed; {EXAMPLE}, or leave the field out")
    if len(urls) > MAX_URLS:
        raise RolloutError("row", f"{URL}: {len(urls)} URLs; at most {MAX_URLS} are possible")
    return tuple(_read_url(one) for one in urls)


def _read_url(text: str) -> str:
    """Rebuilt from its parts, so that every later reader finds the same host."""
    try:
        parts = urlsplit(text.strip())
        host, port = plain_host(parts.hostname or ""), parts.port
    except ValueError:
        raise RolloutError("row", f"{URL}: {show_host(text)!r} is not a URL; {EXAMPLE}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise RolloutError("row", f"{URL}: {show_host(text)!r} is not an http(s) address; {EXAMPLE}")
    if "@" in parts.netloc:
        raise RolloutError("row", f"{URL}: user and password do not belong in a URL; the key goes into {KEY}")
    if parts.query or parts.fragment or not _PATH.fullmatch(parts.path) or len(text) > MAX_URL:
        raise RolloutError("row", f"{URL}: {show_host(text)!r} is more than a base URL; {EXAMPLE}")
    where = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{where}{f':{port}' if port else ''}{parts.path}".rstrip("/")


def _read_key(given: Any) -> str:
    if not isinstance(given, str) or len(given) > MAX_KEY or (given and not _PRINTABLE.fullmatch(given)):
        raise RolloutError("row", f"{KEY}: a text of at most {MAX_KEY} visible ASCII characters is needed")
    if given == REDACTED:
        what = "the key was masked when this row was written down; put the real one there, or leave the field out"
        raise RolloutError("row", f"{KEY}: {what}")
    return given


def _read_model(given: Any) -> str:
    if given is None:
        return ""
    if not isinstance(given, str) or not given.strip() or len(given) > MAX_MODEL:
        raise RolloutError("row", f"{MODEL}: a name of 1 to {MAX_MODEL} characters is needed, or no such field")
    return given


_PREFIX = b"x-gym-policy-"
_URL, _KEY = HEADER_POLICY_URL.encode(), HEADER_POLICY_KEY.encode()
_MODEL, _FOR = HEADER_POLICY_MODEL.encode(), HEADER_POLICY_FOR.encode()
