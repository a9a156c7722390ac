"""Token ids and log-probs that are made up: one a word, the same in every run, each prompt beginning with the last."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from gym.wire import items
from gym.wire.items import Item
from gym.wire.token_ids import GENERATION, LOG_PROBS, PROMPT

PIECE = re.compile(r"\w+|[^\w\s]")
ROLE, END = "<role>", "<end>"


def with_tokens(output: list[Item], params: Mapping[str, Any], vocabulary: int) -> tuple[list[Item], dict[str, Any]]:
    """On the last item of a reply; and the usage that fits them."""
    prompt = _prompt(params, vocabulary)
    generation = _ids([*_pieces(output), END], vocabulary)
    # Log-probs of a policy that is rather sure of itself: between 0 and -2, decided by the id.
    log_probs = [-(one * 2654435761 % 2000) / 1000 for one in generation]
    last = {**output[-1], PROMPT: prompt, GENERATION: generation, LOG_PROBS: log_probs}
    return [*output[:-1], last], items.text_usage(len(prompt), len(generation))


def _prompt(params: Mapping[str, Any], vocabulary: int) -> list[int]:
    talk = items.input_items(params.get("input"))
    last = next((index for index in reversed(range(len(talk))) if talk[index].get(GENERATION)), None)
    if last is None:
        said = [str(params.get("instructions") or ""), orjson.dumps(params.get("tools") or []).decode()]
        return _ids([*(piece for text in said for piece in PIECE.findall(text)), *_turns(talk)], vocabulary)
    before = [*talk[last][PROMPT], *talk[last][GENERATION]]
    return before + _ids(_turns(talk[last + 1 :]), vocabulary)


def _turns(talk: Iterable[Item]) -> list[str]:
    """What the model did not say itself, and the sign that it is its turn."""
    return [*_pieces(talk), ROLE]


def _pieces(talk: Iterable[Item]) -> list[str]:
    return [piece for item in talk for piece in [ROLE, *PIECE.findall(_text(item))]]


def _text(item: Item) -> str:
    thought = " ".join(part.get("text") or "" for part in item.get("summary") or ())
    call = f"{item.get('name') or ''} {item.get('arguments') or ''} {item.get('output') or ''}"
    return f"{thought} {items.item_text(item)} {call}"


def _ids(pieces: Iterable[str], vocabulary: int) -> list[int]:
    return [zlib.crc32(piece.encode("utf-8", "replace")) % vocabulary for piece in pieces]
