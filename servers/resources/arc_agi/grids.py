r"""A grid of integers in a text, as JSON: in `\boxed{[[1, 2], [3, 4]]}`, else anywhere. Linear in the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from gym.server.slots import kept, last_box, unwrapped

Grid = list[list[int]]
_RUN = re.compile(r"[\d\s,\[\]]+")
_BOXED_RUN = re.compile(r"\\boxed\{([\d\s,\[\]]+)\}")


def read_grid(text: str, *, strict: bool = False) -> Grid | None:
    """The first grid that is one, boxed ones before all others. Strict: the last box, which holds nothing else."""
    if strict:
        box = unwrapped(kept(text, last_box(text)) or "")
        return next(_grids([_dense(box)]), None) if _RUN.fullmatch(box) else None
    boxed = [_dense(run) for run in _BOXED_RUN.findall(text)]
    return next(_grids(list(filter(_has_rows, boxed)) or map(_dense, _RUN.findall(text))), None)


def _dense(run: str) -> str:
    return "".join(run.split())


def _has_rows(dense: str) -> bool:
    return dense.startswith("[[") and dense.endswith("]]") and len(dense) > len("[[]]")


def _grids(runs: Iterable[str]) -> Iterator[Grid]:
    for dense in runs:
        begin, end = dense.find("[["), dense.rfind("]]")
        try:
            grid = json.loads(dense[begin : end + 2]) if 0 <= begin < end else None
        except (ValueError, RecursionError):
            continue
        if is_grid(grid):
            yield grid


def is_grid(value: object) -> TypeGuard[Grid]:
    """Rows of numbers that a reply can hold, with something in the first."""
    if not isinstance(value, list) or not value or not all(isinstance(row, list) for row in value) or not value[0]:
        return False
    return all(type(cell) is int and cell < 2**63 for row in value for cell in row)
