"""Sound that a row names in its metadata, put before the text of the last user message."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

from gym.wire.failures import RolloutError

KEYS: Final = ("audio_data", "audio_path", "audio_paths")
KINDS: Final = {".wav": "wav", ".flac": "flac", ".mp3": "mpeg", ".m4a": "mp4", ".ogg": "ogg", ".opus": "opus"}


def add_audio(asked: dict[str, Any], root: str | None) -> None:
    metadata = asked.get("metadata") or {}
    named = [key for key in KEYS if metadata.get(key)]
    if not named:
        return
    if len(named) > 1:
        raise RolloutError("row", f"metadata: one of {', '.join(named)} is enough")
    given = metadata[named[0]]
    urls = [given] if named[0] == "audio_data" else [_to_url(one, root) for one in _as_list(given)]
    parts = [{"type": "audio_url", "audio_url": {"url": url}} for url in urls]
    messages = asked["messages"]
    at = next((index for index in reversed(range(len(messages))) if messages[index].get("role") == "user"), None)
    if at is None:
        messages.append({"role": "user", "content": parts})
        return
    content = messages[at].get("content")
    said = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    messages[at] = {**messages[at], "content": parts + said}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _to_url(name: Any, root: str | None) -> str:
    path = Path(str(name))
    if not path.is_absolute():
        if root is None:
            raise RolloutError("row", f"metadata: {path} is relative, and the model's configuration has no audio_root")
        path = Path(root) / path
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise RolloutError("row", f"metadata: {path.name} is not a sound that is known; there are {', '.join(KINDS)}")
    try:
        return f"data:audio/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    except OSError as error:
        raise RolloutError("row", f"metadata: {path} cannot be read: {error.strerror}") from None
