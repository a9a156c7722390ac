"""Data sets as the lines of one file: each row with its agent, repeated, blended and shuffled as was asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from gym.data.blending import Shares, alternate, choose, name_of_share, share_counts
from gym.data.line_blocks import read_blocks
from gym.data.measure import Measured, within
from gym.data.row_parsing import AGENT_REF
from gym.data.row_rules import MAX_LINE
from gym.data.shuffle import shuffle_lines
from gym.data.statistics import Statistics
from gym.errors import UserError
from gym.wire.server_types import AGENTS

_WHOLE = frozenset({"validation", "benchmark"})  # splits that a blend takes from all of


def collate(
    measured: Sequence[Measured], shares: Shares, seed: int | None, file: BinaryIO, folder: Path
) -> tuple[Statistics, dict[str, int]]:
    """Writes the lines of one split; what they are like, and how many there are under each name of the blend.

    `folder` is where lines wait that are too many to shuffle in memory.
    """
    sources, taken = _sources(measured, shares, seed)
    lines = alternate(sources) if seed is None else shuffle_lines(chain(*(rows for _, rows in sources)), seed, folder)
    counted = not shares and not any(one.dropped for one in measured)
    statistics = Statistics(measured[0].statistics.tokenizer)
    for line in lines:
        file.write(line + b"\n")
        if not counted:
            statistics.observe(orjson.loads(line))
    if counted:
        for one in measured:
            statistics.add(one.statistics, one.placed.listed.data.num_repeats)
    return statistics, taken


def collated_lines(one: Measured) -> Iterator[bytes]:
    """The rows of a data set that are kept, each with its agent and as often as the block says."""
    data, agent = one.placed.listed.data, one.placed.agent
    index = 0
    for block in read_blocks([str(one.placed.path)], MAX_LINE):
        for line in block.lines():
            if within(data.start_idx, data.end_idx, index) and one.keeps(line.number):
                row = with_agent(line.raw, agent)
                for _ in range(data.num_repeats):
                    yield row
            index += 1


def with_agent(raw: bytes, agent: str) -> bytes:
    """The row's own bytes; where it names no agent, the agent is put last."""
    if not agent or not (raw.endswith(b"}")):
        return raw
    ref: dict[str, Any] = {"type": AGENTS, "name": agent}
    if AGENT_REF.encode() in raw or b"\\u" in raw:  # a key may be written with escapes
        row = orjson.loads(raw)
        if row.get(AGENT_REF):
            return raw
        if AGENT_REF in row:  # as null: the one way to take it out that keeps numbers of any size
            return json.dumps({**json.loads(raw), AGENT_REF: ref}, ensure_ascii=False).encode()
    return b'%s, "%s": %s}' % (raw[:-1].rstrip(), AGENT_REF.encode(), json.dumps(ref).encode())


def _sources(
    measured: Sequence[Measured], shares: Shares, seed: int | None
) -> tuple[list[tuple[Fraction, Iterable[bytes]]], dict[str, int]]:
    """Lines to be put together, each stream with its share."""
    split = measured[0].placed.listed.data.type
    named: dict[str, list[Measured]] = {}
    for one in measured:
        name = name_of_share(one.placed.listed, shares) if shares else ""
        if name is not None:
            named.setdefault(name, []).append(one)
    streams = {name: chain.from_iterable(map(collated_lines, group)) for name, group in named.items()}
    counts = {name: sum(one.kept for one in group) for name, group in named.items()}
    if not shares or split in _WHOLE:
        return [(Fraction(1), chain(*streams.values()))], counts
    takes = share_counts(shares, counts)
    if none := [name for name, count in takes.items() if not count]:
        available = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise UserError(
            f"--blend: these shares leave no row of {', '.join(none)}; there are {available}", "change the shares"
        )
    return [
        (shares[name], islice(stream, takes[name]) if seed is None else _chosen(stream, takes, counts, name, seed))
        for name, stream in streams.items()
    ], takes


def _chosen(
    stream: Iterable[bytes], takes: dict[str, int], counts: dict[str, int], name: str, seed: int
) -> Iterator[bytes]:
    return choose(stream, takes[name], counts[name], f"{seed}:{name}")
