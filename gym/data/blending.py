"""Several environments in one file by given shares: how many rows of each, and in which order they alternate."""

from __future__ import annotations

import difflib
import heapq
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from gym.data.data_sets import Listed
from gym.errors import UserError
from gym.wire.server_types import RESOURCES

Shares = Mapping[str, Fraction]


def parse_shares(text: str) -> dict[str, Fraction]:
    """`a=2,b=1` -> {"a": 2, "b": 1}; a share may be 0.5 or 1/3."""
    shares: dict[str, Fraction] = {}
    for part in text.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        try:
            share = Fraction(number)
        except (ValueError, ZeroDivisionError):
            share = Fraction(0)
        if not name or share <= 0 or name in shares:
            raise UserError(f"--blend {text}: {part!r} is not NAME=SHARE, each name once", "e.g. --blend mcqa=2,mrcr=1")
        shares[name] = share
    return shares


def name_of_share(listed: Listed, shares: Shares) -> str | None:
    """The name under which a data set takes part: its agent's, else its resources server's, else its own."""
    return next((name for name in _names(listed) if name in shares), None)


def check_shares(shares: Shares, scope: Iterable[Listed]) -> None:
    """Every name of the blend is an instance or a data set in scope."""
    names = {name for one in scope for name in _names(one)}
    for name in shares:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"named here: {', '.join(sorted(names))}"
            raise UserError(f"--blend: no instance or data set in scope is called {name!r}", hint)


def share_counts(shares: Shares, counts: Mapping[str, int]) -> dict[str, int]:
    """How many rows of each: as many as there can be in these shares without any row twice."""
    unit = min(counts[name] / shares[name] for name in counts)
    return {name: int(shares[name] * unit) for name in counts}


def choose(rows: Iterable[bytes], count: int, of: int, seed: str) -> Iterator[bytes]:
    """`count` rows of `of`, every choice equally likely, in their order."""
    draw = random.Random(seed)
    for left, row in zip(range(of, 0, -1), rows, strict=False):
        if draw.randrange(left) < count:
            count -= 1
            yield row
        if not count:
            return


def alternate(sources: Sequence[tuple[Fraction, Iterable[bytes]]]) -> Iterator[bytes]:
    """Rows in their order, so mixed that every stretch of the output has about the shares of the whole."""
    keyed = [_keyed(index, share, rows) for index, (share, rows) in enumerate(sources)]
    return (row for _, _, row in heapq.merge(*keyed, key=lambda one: one[:2]))


def _names(listed: Listed) -> tuple[str, ...]:
    servers = (one.name for one in listed.instance.references if one.type == RESOURCES)
    return (listed.instance.name, *servers, listed.data.name)


def _keyed(index: int, share: Fraction, rows: Iterable[bytes]) -> Iterator[tuple[float, int, bytes]]:
    weight = float(share)
    for number, row in enumerate(rows):
        yield (number + 0.5) / weight, index, row
