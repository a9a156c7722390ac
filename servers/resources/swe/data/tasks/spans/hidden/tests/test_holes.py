from spans import SpanSet


def test_remove_from_the_middle_leaves_both_sides():
    spans = SpanSet([(0, 10)])
    spans.remove(4, 6)
    assert list(spans) == [(0, 4), (6, 10)]


def test_gaps_between_spans():
    assert list(SpanSet([(2, 3), (5, 7)]).gaps(0, 10)) == [(0, 2), (3, 5), (7, 10)]


def test_the_first_number_is_in_it():
    spans = SpanSet([(0, 5), (10, 12)])
    assert 0 in spans
    assert 10 in spans


def test_empty_spans_add_nothing():
    spans = SpanSet([(3, 3)])
    assert list(spans) == []


def test_removing_nothing_splits_nothing():
    spans = SpanSet([(0, 10)])
    spans.remove(5, 5)
    assert list(spans) == [(0, 10)]


def test_against_plain_sets():
    spans, plain = SpanSet(), set()
    for step in range(200):
        start = step * 37 % 61
        end = start + step * 13 % 11
        if step % 3:
            spans.add(start, end)
            plain |= set(range(start, end))
        else:
            spans.remove(start, end)
            plain -= set(range(start, end))
        assert {number for number in range(80) if number in spans} == plain
        assert len(spans) == len(plain)
