"""Plots: every value is in a bar, borders are round numbers, and what is written in them is text."""

from __future__ import annotations

from collections import Counter
from random import Random
from xml.etree import ElementTree

import pytest

from gym.data.svg import Bar, histogram_svg, make_bars, nice_step, short_number

SVG = "{http://www.w3.org/2000/svg}"


def test_few_whole_numbers_have_a_bar_each_those_between_included() -> None:
    assert make_bars({1: 5, 3: 2}) == [Bar(1, 1, 5), Bar(2, 2, 0), Bar(3, 3, 2)]
    assert make_bars({0.5: 7}) == [Bar(0.5, 0.5, 7)]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (9000, 2_000_000), (-3, 5), (0.1, 0.11), (40, 80)])
def test_no_value_is_lost_and_bars_stand_between_round_numbers(low: float, high: float) -> None:
    random = Random(1)
    values = Counter(random.uniform(low, high) for _ in range(500)) + Counter({float(low): 3, float(high): 4})
    bars = make_bars(values)
    assert sum(bar.seen for bar in bars) == 507
    assert bars[0].low <= low < bars[0].high
    assert bars[-1].low < high <= bars[-1].high + 1e-9
    assert 4 < len(bars) <= 24
    for bar in bars[:-1]:
        assert bar.seen == pytest.approx(sum(n for value, n in values.items() if bar.low <= value < bar.high), abs=1)


def test_steps_are_round_and_whole_where_they_must_be() -> None:
    assert [nice_step(rough) for rough in (0.03, 0.9, 1, 23, 2600)] == [0.05, 1, 1, 25, 5000]
    assert [nice_step(rough, whole=True) for rough in (0.03, 1.2, 2.4)] == [1, 2, 3]
    assert [short_number(value) for value in (0, 0.25, 950, 2000, 12_000, 1.5e6, 2e9)] == [
        *("0", "0.25", "950", "2,000", "12K", "1.5M", "2B")
    ]


def test_the_picture_is_well_formed_and_names_are_text() -> None:
    root = ElementTree.fromstring(histogram_svg({1: 3, 2: 30}, title='a<b>&"', label="<x>", unit="rows"))
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert texts[0] == 'a<b>&"'
    assert texts[1] == "33 rows"
    assert texts[-1] == "<x>"
    bars = [one for one in root.iter(f"{SVG}path") if one.get("class") == "bar"]
    assert [one.findtext(f"{SVG}title") for one in bars] == ["1: 3 rows", "2: 30 rows"]
    assert "prefers-color-scheme: dark" in (root.findtext(f"{SVG}style") or "")


def test_the_highest_bar_stays_below_the_title() -> None:
    root = ElementTree.fromstring(histogram_svg({1: 1, 2: 4436}, title="t", label="l"))
    lines = [float(one.get("y1", 0)) for one in root.iter(f"{SVG}line")]
    assert min(lines) >= 50
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert "6,000" in texts
    assert "8,000" not in texts
