import pytest

from spans import SpanSet


def test_touching_spans_become_one():
    assert list(SpanSet([(0, 5), (5, 9)])) == [(0, 9)]


def test_overlap():
    assert list(SpanSet([(0, 5), (3, 9), (20, 22)])) == [(0, 9), (20, 22)]


def test_length():
    assert len(SpanSet([(0, 5), (10, 12)])) == 7


def test_the_end_is_not_in_it():
    spans = SpanSet([(0, 5)])
    assert 4 in spans
    assert 5 not in spans


def test_remove_at_the_left():
    spans = SpanSet([(0, 10)])
    spans.remove(0, 4)
    assert list(spans) == [(4, 10)]


def test_remove_at_the_right():
    spans = SpanSet([(0, 10)])
    spans.remove(6, 20)
    assert list(spans) == [(0, 6)]


def test_backwards_is_refused():
    with pytest.raises(ValueError, match="after"):
        SpanSet([(3, 1)])
