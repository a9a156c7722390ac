"""The tables that remember which rows were seen and which rollouts are done."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gym.collect import keys as keys_module
from gym.collect.keys import DigestTable, DoneKeys, RowIndex, format_key, parse_key, row_digest

WORDS = st.integers(0, 2**64 - 1)


@pytest.fixture(autouse=True, params=[0, 3, 1 << 16], ids=["many", "few and then many", "few"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many keys are few."""
    monkeypatch.setattr(keys_module, "_FEW", request.param)
    count: int = request.param
    return count


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(WORDS.filter(lambda key: key > 1), st.integers(0, 2**32 - 1))))
def test_the_table_answers_as_a_dict_would(pairs: list[tuple[int, int]]) -> None:
    table = DigestTable(values=True)
    expected: dict[int, int] = {}
    for key, value in pairs:
        assert table.add(key, value) == (key not in expected)
        expected.setdefault(key, value)
    assert len(table) == len(expected)
    assert {key: table.get(key) for key in expected} == expected


@pytest.mark.parametrize("spread", [True, False], ids=["digests", "small numbers"])
def test_the_table_keeps_everything_when_it_grows(spread: bool) -> None:
    table = DigestTable(values=True)
    keys = [row_digest(b"%d" % number) if spread else number + 1 for number in range(20_000)]
    for number, key in enumerate(keys):
        table.add(key, number)
    assert len(table) == 20_000
    assert all(table.get(key) == number for number, key in enumerate(keys))
    assert table.get(row_digest(b"another")) is None
    assert row_digest(b"another") not in table


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 3))))
def test_the_index_counts_as_a_dict_would(counted: list[tuple[int, int]]) -> None:
    index = RowIndex()
    expected: dict[int, int] = {}
    for digest, repeats in counted:
        index.count(digest, repeats)
        expected[digest] = expected.get(digest, 0) + repeats
    assert [index.find(digest) for digest in expected] == [
        (place, count) for place, count in enumerate(expected.values())
    ]


def test_a_row_is_looked_for_once(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, look = list[int](), keys_module._slot

    def counting(table: array[int], key: int) -> int:
        looks.append(key)
        return look(table, key)

    monkeypatch.setattr(keys_module, "_slot", counting)
    index, done = RowIndex(), DoneKeys()
    assert [index.count(digest, 2) for digest in (5, 9, 5)] == [(0, 0), (1, 0), (0, 2)]
    assert not done.has(5, 0)  # nothing is done: nothing to look for
    assert len(looks) == (0 if few else 3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WORDS, st.integers(0, 10_000))
def test_a_key_reads_back_as_it_was_written(digest: int, repeat: int) -> None:
    assert parse_key(format_key(digest, repeat)) == (digest, repeat)
