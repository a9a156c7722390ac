r"""Grids as rows of digits, and the code of a `transform` function, in a text. Linear in the text."""

from __future__ import annotations

import json
import re

from gym.server.slots import kept, last_box, unwrapped
from gym.wire.answers import fenced_blocks, without_blocks

Board = list[list[int]]
_BOX = "\\boxed{"
_GRID = re.compile(r"[\d\s,;|\[\].]+")
_SIGN = re.compile(r"[^\s\w]")
_DIGITS = frozenset("0123456789")


def read_board(text: str, *, strict: bool = False) -> Board | None:
    r"""Of the box, or of all text: every line's single digits are a row. None where the rows differ in length.

    Strict reads the last box that holds something alone, and JSON in it as well; words in it make it no grid.
    """
    text = without_blocks(text, "think")
    if strict:
        inside = unwrapped(kept(text, last_box(text)) or "")
        return (as_board(_json(inside)) or _rows(inside)) if _GRID.fullmatch(inside) else None
    opening, closing = text.find(_BOX), text.rfind("}")
    return _rows(text[opening + len(_BOX) : closing] if 0 <= opening < closing else text)


def read_code(text: str) -> str | None:
    """The last Python block, else the last block, else all of a text that defines `transform`."""
    text = without_blocks(text, "think")
    blocks = fenced_blocks(text, "python") or fenced_blocks(text)
    if blocks:
        return blocks[-1].strip()
    return text.strip() if "def transform" in text else None


def as_board(value: object) -> Board | None:
    """A value that is a grid: rows of integers, all as long as the first; 1.0 is 1."""
    if not isinstance(value, list) or not value or not all(isinstance(row, list) and row for row in value):
        return None
    if len({len(row) for row in value}) > 1:
        return None
    cells = [[_cell(cell) for cell in row] for row in value]
    return [[cell for cell in row if cell is not None] for row in cells] if _whole(cells) else None


def _whole(cells: list[list[int | None]]) -> bool:
    return all(cell is not None for row in cells for cell in row)


def _cell(cell: object) -> int | None:
    if isinstance(cell, (bool, int)):
        return int(cell) if abs(cell) < 2**53 else None
    return int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53 else None


def _rows(text: str) -> Board | None:
    lines = ([word for word in _SIGN.sub("", line).split() if word in _DIGITS] for line in text.split("\n"))
    return as_board([[int(digit) for digit in line] for line in lines if line])


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
