"""An order that a seed decides: nothing lost, the same in memory and on disk, every order possible."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gym.data.shuffle import shuffle_lines

LINES = [f"line {number}".encode() * 3 for number in range(2000)]


def shuffled(folder: Path, seed: int, in_memory: int = 1 << 20) -> list[bytes]:
    return list(shuffle_lines(LINES, seed, folder, in_memory=in_memory))


def test_one_seed_gives_one_order_in_memory_and_on_disk_alike(tmp_path: Path) -> None:
    first = shuffled(tmp_path, 7)
    assert first != LINES
    assert sorted(first) == sorted(LINES)
    assert shuffled(tmp_path, 7, in_memory=5000) == first
    assert shuffled(tmp_path, 7, in_memory=0) == first
    assert shuffled(tmp_path, 8) != first


def test_no_file_is_left_also_when_the_reader_stops_early(tmp_path: Path) -> None:
    lines = shuffle_lines(LINES, 1, tmp_path, in_memory=0)
    next(lines)
    assert list(tmp_path.iterdir())
    lines.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())


def test_every_order_is_about_as_frequent(tmp_path: Path) -> None:
    orders = Counter(tuple(shuffle_lines([b"a", b"b", b"c"], seed, tmp_path)) for seed in range(1200))
    assert len(orders) == 6
    assert max(orders.values()) < 2 * min(orders.values())  # 200 each; seeds are fixed, so this never changes


def test_lines_of_any_bytes_come_back_whole(tmp_path: Path) -> None:
    lines = [b"", b"\x00" * 40, b"\n\r\n", b"x" * 200_000]
    assert sorted(shuffle_lines(lines, 3, tmp_path, in_memory=0)) == sorted(lines)


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
def test_nothing_stays_nothing(tmp_path: Path, in_memory: int) -> None:
    assert list(shuffle_lines([], 1, tmp_path, in_memory=in_memory)) == []
