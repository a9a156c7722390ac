"""A data set in parts. A row's part depends on its input and the seed alone: it stays when the file grows."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from gym.data.line_source import Line
from gym.data.row_keys import user_key
from gym.data.row_parsing import BadLine, bad_line, parse_row
from gym.data.statistics import digest
from gym.data.whole_files import WholeFiles
from gym.errors import ConfigError, UserError


@dataclass(frozen=True, slots=True)
class SplitParts:
    """Names with their shares, in order."""

    names: tuple[str, ...]
    borders: tuple[float, ...]  # where each begins, the first left out
    seed: int
    field: str = ""  # rows with the same value stay together; "" those with the same user messages

    def find(self, row: Mapping[str, Any], line: Line) -> str:
        key = digest(_value(row, self.field, line)) if self.field else user_key(row)
        place = hashlib.blake2b(key, digest_size=8, key=str(self.seed).encode()).digest()
        return self.names[bisect_right(self.borders, int.from_bytes(place, "big") / 2**64)]


def parse_ratio(text: str, *, seed: int, field: str = "") -> SplitParts:
    """`train=0.9,validation=0.1`; the numbers are shares of their sum."""
    shares: dict[str, float] = {}
    for pair in text.split(","):
        name, _, number = (one.strip() for one in pair.partition("="))
        share = _number(number)
        if not name or name in shares or "/" in name or name.startswith(".") or share is None:
            raise UserError(f"--ratio {text}: {pair!r} is not NAME=SHARE", "--ratio train=0.9,validation=0.1")
        shares[name] = share
    total = sum(shares.values())
    borders = tuple(part / total for part in accumulate(shares.values()))[:-1]
    return SplitParts(tuple(shares), borders, seed, field)


def split_rows(lines: Iterable[Line], parts: SplitParts, files: Mapping[str, Path]) -> Counter[str]:
    """How many rows went where; every line is written as it was read. A line that is not a row is an error."""
    counts: Counter[str] = Counter(dict.fromkeys(parts.names, 0))
    with WholeFiles() as whole:
        outputs = {name: whole.open(files[name]) for name in parts.names}
        for line in lines:
            try:
                name = parts.find(parse_row(line), line)
            except BadLine as bad:
                raise ConfigError([bad.problem]) from None
            outputs[name].write(line.raw + b"\n")
            counts[name] += 1
    return counts


def _value(row: Mapping[str, Any], field: str, line: Line) -> Any:
    value: Any = row
    for part in _path(row, field):
        if not isinstance(value, Mapping) or part not in value:
            raise bad_line(line, "is missing: rows are split by it", key=field, hint=f"the row has {', '.join(row)}")
        value = value[part]
    return value


def _path(row: Mapping[str, Any], field: str) -> Sequence[str]:
    return [field] if field in row else field.split(".")


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None
