"""Histograms as SVG: one series, its own background, readable in light and in dark, and without a package."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Final, NamedTuple

WIDTH, HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 52, 44
_MAX_BARS = 24
_STEPS: Final = (1, 2, 2.5, 5, 10)
_STYLE: Final = """
  .back { fill: #fcfcfb } .bar { fill: #2a78d6 } .bar:hover { fill: #1c5cab }
  .grid { stroke: #e1e0d9 } .axis { stroke: #c3c2b7 }
  text { font: 12px system-ui, sans-serif; fill: #52514e } .title { font-size: 15px; font-weight: 600; fill: #0b0b0b }
  @media (prefers-color-scheme: dark) {
    .back { fill: #1a1a19 } .bar { fill: #3987e5 } .bar:hover { fill: #86b6ef }
    .grid { stroke: #2c2c2a } .axis { stroke: #383835 }
    text { fill: #c3c2b7 } .title { fill: #ffffff }
  }
"""


class Bar(NamedTuple):
    """From `low` up to `high`, which is left out; the last bar has both. A bar of one value has `low == high`."""

    low: float
    high: float
    seen: int


def histogram_svg(values: Mapping[float, int], *, title: str, label: str, unit: str = "rows") -> str:
    """`values`: how often each number was seen; `label` is what the numbers are, `unit` what is counted."""
    bars = make_bars(values)
    highest = max(bar.seen for bar in bars)
    tick = nice_step(highest / 4, whole=True)
    top = tick * math.ceil(highest / tick)
    total = sum(values.values())
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [
        f'{head} role="img" aria-label="{escape(f"{title}: {total:,} {unit}", quote=True)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        _text(_LEFT, 24, title, "title"),
        _text(_LEFT, 42, f"{total:,} {unit}"),
        *_grid(tick, top),
        *_bars(bars, top, unit),
        *_marks(bars),
        _text(_LEFT + (WIDTH - _LEFT - _RIGHT) / 2, HEIGHT - 8, label, anchor="middle"),
    ]
    return "\n".join([*parts, "</svg>", ""])


def make_bars(values: Mapping[float, int]) -> list[Bar]:
    """One for each value where they are few and whole and near, else of equal width between round numbers."""
    low, high = min(values), max(values)
    whole = all(float(value).is_integer() for value in values)
    if low == high:
        return [Bar(low, low, values[low])]
    if whole and high - low < _MAX_BARS:
        return [Bar(at, at, values.get(at, 0)) for at in range(int(low), int(high) + 1)]
    step = nice_step((high - low) / (_MAX_BARS - 4), whole=whole)
    first = math.floor(low / step)
    counts = [0] * (max(1, math.ceil(high / step - 1e-9) - first))
    for value, count in values.items():
        counts[min(len(counts) - 1, math.floor(value / step + 1e-9) - first)] += count
    return [Bar((first + at) * step, (first + at + 1) * step, count) for at, count in enumerate(counts)]


def nice_step(rough: float, *, whole: bool = False) -> float:
    """The next larger of 1, 2, 2.5, 5 times a power of ten; of whole numbers only whole ones."""
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one for one in (part * power for part in _STEPS) if one >= rough * (1 - 1e-9))
    return float(max(1, math.ceil(step))) if whole else step


def _grid(tick: float, top: float) -> list[str]:
    lines = []
    for part in range(round(top / tick) + 1):
        y, css = _height(tick * part, top), "grid" if part else "axis"
        lines.append(f'<line class="{css}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(_text(_LEFT - 8, y + 4, short_number(tick * part), anchor="end"))
    return lines


def _bars(bars: list[Bar], top: float, unit: str) -> list[str]:
    wide = _wide(bars)
    drawn = []
    for at, bar in enumerate(bars):
        if not bar.seen:
            continue
        x, width = _LEFT + at * wide + 1, min(wide - 2, 72.0)
        x += (wide - 2 - width) / 2
        y = min(_height(bar.seen, top), _height(0, top) - 1.5)  # a small count stays visible
        corner = min(4.0, width / 2, _height(0, top) - y)
        path = (
            f"M{x:.1f} {_height(0, top):.1f}V{y + corner:.1f}q0 {-corner:.1f} {corner:.1f} {-corner:.1f}"
            f"h{width - 2 * corner:.1f}q{corner:.1f} 0 {corner:.1f} {corner:.1f}V{_height(0, top):.1f}z"
        )
        drawn.append(f'<path class="bar" d="{path}"><title>{_range(bar)}: {bar.seen:,} {escape(unit)}</title></path>')
    return drawn


def _marks(bars: list[Bar]) -> list[str]:
    """Numbers below the bars, as many as there is room for: in the middle of one value, at the edges of several."""
    wide, y = _wide(bars), HEIGHT - _BOTTOM + 16
    single = bars[0].low == bars[0].high
    places = [bar.low for bar in bars] if single else [*(bar.low for bar in bars), bars[-1].high]
    longest = max(len(short_number(place)) for place in places)
    every = max(1, math.ceil((longest * 7 + 14) / wide))
    return [
        _text(_LEFT + (at + 0.5 * single) * wide, y, short_number(place), anchor="middle")
        for at, place in enumerate(places)
        if at % every == 0
    ]


def short_number(value: float) -> str:
    """12000 -> 12K; up to three digits behind the point."""
    for size, sign in ((1e9, "B"), (1e6, "M"), (1e4, "K")):
        if abs(value) >= size:
            return f"{value / (1e3 if sign == 'K' else size):.3g}{sign}"
    return f"{round(value, 3):g}" if abs(value) < 1000 else f"{round(value):,}"


def _range(bar: Bar) -> str:
    return f"{bar.low:g}" if bar.low == bar.high else f"{bar.low:g} to {bar.high:g}"


def _wide(bars: list[Bar]) -> float:
    return (WIDTH - _LEFT - _RIGHT) / len(bars)


def _height(count: float, top: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * count / top


def _text(x: float, y: float, text: str, css: str = "", anchor: str = "") -> str:
    given = (f' class="{css}"' if css else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{given}>{escape(text)}</text>'
