"""The options of NeMo Gym's commands: `+key=value`, `++key=value` and `key=value` alike."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from gym.config.values import GrammarError, parse_value
from gym.errors import UserError


def read_words(
    command: str, words: Iterable[str], known: Sequence[str], *, needed: Sequence[str] = ()
) -> dict[str, Any]:
    """`+key=value` and `key=value` alike; `head_server.port=1` is `{head_server: {port: 1}}`."""
    found: dict[str, Any] = {}
    for word in words:
        path, equals, text = word.lstrip("+").partition("=")
        key, _, inner = path.partition(".")
        if not equals or key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean +{near[0]}=...?" if near else f"It knows {', '.join(known) or 'no options'}."
            raise UserError(f"{command}: {word!r} is not an option of it.", hint)
        try:
            value = parse_value(text)
        except GrammarError as error:
            raise UserError(f"{command}: the value of {path} cannot be read: {error}", f"+{path}=VALUE") from None
        if inner:
            found.setdefault(key, {})[inner] = value
        else:
            found[key] = value
    if absent := [key for key in needed if found.get(key) in (None, "")]:
        example = " ".join(f"+{key}=..." for key in absent)
        raise UserError(f"{command} needs {' and '.join(absent)}.", f"{command} {example}")
    return found
