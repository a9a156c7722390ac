"""A recording of a real model: `{digest, request, reply}` lines, found again by what was asked.

What differs from run to run without meaning anything is left out of the digest: the model's name, ids that the model
server made up (call ids become call_1, call_2, ... in order), statuses, token ids, empty fields.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gym.errors import UserError
from gym.wire.chat import TOKEN_FIELDS
from gym.wire.failures import RolloutError
from gym.wire.items import input_items

VOLATILE = frozenset(
    ("model", "stream", "store", "user", "metadata", "service_tier", "prompt_cache_key", "safety_identifier")
)
ITEM_VOLATILE = frozenset(("id", "status", "annotations", "logprobs", "encrypted_content", *TOKEN_FIELDS))
CANDIDATES = 2000  # how many recorded requests are looked at for the closest one


def canonical_request(params: Mapping[str, Any]) -> dict[str, Any]:
    """What two requests must agree in to be the same."""
    asked = {key: value for key, value in params.items() if key not in VOLATILE and value not in (None, [], {})}
    calls: dict[str, str] = {}
    asked["input"] = [_canonical_item(item, calls) for item in input_items(params.get("input"))]
    return asked


def request_digest(canonical: Mapping[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(canonical, option=orjson.OPT_SORT_KEYS)).hexdigest()


def append_line(path: Path, digest: str, request: Mapping[str, Any], reply: Mapping[str, Any]) -> None:
    """One whole line in one write, on disk before the reply is given."""
    line = orjson.dumps({"digest": digest, "request": request, "reply": reply}) + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line)
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass
class Recording:
    """Replies in the order in which they were recorded; the same request asked again gets the next, then the first."""

    path: Path
    replies: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Recording:
        recording = cls(path)
        for line in _read_lines(path):
            digest = line["digest"]
            recording.replies.setdefault(digest, []).append(line["reply"])
            recording.requests.setdefault(digest, line["request"])
        if not recording.replies:
            raise UserError(f"the recording {path} holds nothing", "record first: mode=record with an upstream")
        return recording

    def reply(self, params: Mapping[str, Any]) -> dict[str, Any]:
        canonical = canonical_request(params)
        digest = request_digest(canonical)
        replies = self.replies.get(digest)
        if replies is None:
            raise RolloutError("model", self._explain(canonical), retryable=False)
        turn = self.asked.get(digest, 0)
        self.asked[digest] = turn + 1
        return replies[turn % len(replies)]

    def _explain(self, asked: Mapping[str, Any]) -> str:
        candidates = list(self.requests.items())[:CANDIDATES]
        digest, closest = max(candidates, key=lambda one: _likeness(one[1], asked))
        path, recorded, found = first_difference(closest, asked)
        return (
            f"{self.path.name} holds no reply to this request. Closest is {digest[:12]}; first difference at {path}: "
            f"recorded {_short(recorded)}, asked {_short(found)}. Record again with mode=record"
        )


def first_difference(left: Any, right: Any, path: str = "") -> tuple[str, Any, Any]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            if left.get(key) != right.get(key):
                return first_difference(left.get(key), right.get(key), f"{path}.{key}" if path else str(key))
    if isinstance(left, list) and isinstance(right, list):
        for index, (one, other) in enumerate(zip(left, right, strict=False)):
            if one != other:
                return first_difference(one, other, f"{path}[{index}]")
        if len(left) != len(right):
            border = min(len(left), len(right))
            return f"{path}[{border}]", (left[border:] or [None])[0], (right[border:] or [None])[0]
    return path or "the request", left, right


def _likeness(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> tuple[int, int, int]:
    """Equal leading items first, then equal fields, then nearness in length."""
    mine, theirs = recorded.get("input") or [], asked.get("input") or []
    same = 0
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            break
        same += 1
    fields = sum(recorded.get(key) == asked.get(key) for key in {*recorded, *asked})
    return same, fields, -abs(len(mine) - len(theirs))


def _canonical_item(item: Mapping[str, Any], calls: dict[str, str]) -> dict[str, Any]:
    kept = {key: value for key, value in item.items() if key not in ITEM_VOLATILE and value not in (None, [], {})}
    if "call_id" in kept:
        kept["call_id"] = calls.setdefault(str(kept["call_id"]), f"call_{len(calls) + 1}")
    if "role" in kept:
        kept["type"] = kept.get("type") or "message"
    content = kept.get("content")
    if isinstance(content, list):
        kept["content"] = [_canonical_part(part) for part in content]
        if len(kept["content"]) == 1 and isinstance(kept["content"][0], str):
            kept["content"] = kept["content"][0]
    return kept


def _canonical_part(part: Any) -> Any:
    """A text part is its text; other parts lose what is volatile."""
    if not isinstance(part, dict):
        return part
    if part.get("type") in ("input_text", "output_text", "text"):
        return part.get("text") or ""
    return {key: value for key, value in part.items() if key not in ITEM_VOLATILE and value is not None}


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                yield _read_line(line, path, number)
    except OSError as error:
        raise UserError(f"the recording {path} cannot be read: {error.strerror}", "is `recording` right?") from None


def _read_line(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        parsed = orjson.loads(line)
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict) or not {"digest", "request", "reply"} <= parsed.keys():
        raise UserError(f"{path}:{number}: not a line of a recording", "a line torn by a crash can be deleted")
    return parsed


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode() if value is not None else "nothing"
    return text if len(text) <= 120 else f"{text[:117]}..."
