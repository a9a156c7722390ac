"""Rows that share a digest are found, in memory and through files alike."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gym.data import digest_index
from gym.data.digest_index import DigestIndex


@pytest.mark.parametrize("buffer", [1, 1 << 20])
def test_places_that_share_a_digest_are_grouped_in_their_order(
    tmp_path: Path, buffer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digest_index, "_BUFFER", buffer)
    index = DigestIndex(tmp_path)
    values = [number % 300 for number in range(1000)]
    for place, value in reversed(list(enumerate(values))):
        index.add(hashlib.md5(str(value).encode()).digest(), place)
    groups = sorted(index.groups())
    assert groups == [[place for place in range(1000) if values[place] == value] for value in range(300)]
    assert bool(list(tmp_path.iterdir())) is (buffer == 1)


def test_what_is_there_once_is_in_no_group(tmp_path: Path) -> None:
    index = DigestIndex(tmp_path)
    for place in range(10):
        index.add(bytes([place]) * 16, place)
    assert list(index.groups()) == []
