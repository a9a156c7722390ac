"""A random sample of a data set's rows: each equally likely, in their order, the same for the same seed."""

from __future__ import annotations

import hashlib
import heapq
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO

from gym.data.line_source import STDIN, Line, no_rows, read_lines
from gym.data.row_parsing import need_row
from gym.errors import UserError


def sample_rows(files: Sequence[str], count: int, *, seed: int) -> Iterator[Line]:
    """Read twice, so only numbers stay in memory; standard input is copied to a temporary file."""
    given = files
    with ExitStack() as stack:
        if STDIN in files:
            copy = stack.enter_context(tempfile.NamedTemporaryFile(suffix=".jsonl"))
            _copy(read_lines([STDIN]), copy)
            files = [copy.name if one == STDIN else one for one in files]
        total = sum(1 for _ in read_lines(files))
        if not total:
            raise no_rows(given)
        chosen = choose_places(total, count, seed)
        wanted = next(chosen, -1)
        for place, line in enumerate(read_lines(files)):
            if place == wanted:
                yield _checked(line)
                wanted = next(chosen, -1)


def choose_places(total: int, count: int, seed: int) -> Iterator[int]:
    """The places whose number comes out smallest: of a longer file mostly the same ones are chosen."""
    if count > total:
        raise UserError(f"{count:,} rows were asked for, and there are {total:,}", f"ask for fewer: -n {total}")
    key = str(seed).encode()
    drawn = ((_draw(place, key), place) for place in range(total))
    return iter(sorted(place for _, place in heapq.nsmallest(count, drawn)))


def _draw(place: int, key: bytes) -> bytes:
    return hashlib.blake2b(place.to_bytes(8, "big"), digest_size=8, key=key).digest()


def _copy(lines: Iterable[Line], file: IO[bytes]) -> None:
    file.writelines(line.raw + b"\n" for line in lines)
    file.flush()


def _checked(line: Line) -> Line:
    need_row(line)
    return line
