"""The tables that remember which rows were seen and which rollouts are done."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gym.collect.keys import DigestMap, DoneKeys, RowIndex, format_key, parse_key, row_digest

WORDS = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(WORDS.filter(lambda key: key > 1), WORDS)))
def test_the_table_answers_as_a_dict_would(pairs: list[tuple[int, int]]) -> None:
    table, expected = DigestMap(), dict(pairs)
    for key, value in pairs:
        table.set(key, value)
    assert len(table) == len(expected)
    assert {key: table.get(key) for key in expected} == expected


def test_the_table_keeps_everything_when_it_grows() -> None:
    table = DigestMap()
    for number in range(5000):
        table.set(row_digest(b"%d" % number), number)
    assert len(table) == 5000
    assert all(table.get(row_digest(b"%d" % number)) == number for number in range(5000))
    assert table.get(row_digest(b"another")) is None


def test_done_keys_know_a_row_and_its_repeat() -> None:
    done = DoneKeys()
    assert done.add(7, 0)
    assert not done.add(7, 0)
    assert done.has(7, 0)
    assert not done.has(7, 1)
    assert not done.has(8, 0)
    assert len(done) == 1


def test_equal_lines_share_an_index_and_count_on() -> None:
    index = RowIndex()
    index.count(5, 2)
    index.count(9, 2)
    index.count(5, 2)
    assert index.find(5) == (0, 4)
    assert index.find(9) == (1, 2)
    assert index.find(77) == (2, 0)


@given(WORDS, st.integers(0, 10_000))
def test_a_key_reads_back_as_it_was_written(digest: int, repeat: int) -> None:
    assert parse_key(format_key(digest, repeat)) == (digest, repeat)
