"""Five figures of a series of numbers, kept as exact sums: the same however the series is cut and merged."""

from __future__ import annotations

import math
import sys
from fractions import Fraction


class Numbers:
    """Grows with the number of different denominators, of which floats have at most 1,075; not with the series."""

    __slots__ = ("_sums", "count", "max", "min")

    def __init__(self) -> None:
        self.count = 0
        self.min: float = 0
        self.max: float = 0
        self._sums: dict[int, list[int]] = {}  # denominator -> sums of the numerators and of their squares

    def observe(self, value: float) -> None:
        if not self.count:
            self.min = self.max = value
        elif value < self.min:
            self.min = value
        elif value > self.max:
            self.max = value
        self.count += 1
        numerator, denominator = value.as_integer_ratio()
        sums = self._sums.get(denominator)
        if sums is None:
            self._sums[denominator] = [numerator, numerator * numerator]
        else:
            sums[0] += numerator
            sums[1] += numerator * numerator

    def add(self, other: Numbers, times: int = 1) -> None:
        """As if each value of `other` had been observed `times` times."""
        if not other.count:
            return
        self.min = min(self.min, other.min) if self.count else other.min
        self.max = max(self.max, other.max) if self.count else other.max
        self.count += other.count * times
        for denominator, (total, squares) in other._sums.items():
            sums = self._sums.setdefault(denominator, [0, 0])
            sums[0] += total * times
            sums[1] += squares * times

    def mean(self) -> float:
        return float(self._total() / self.count) if self.count else 0.0

    def deviation(self) -> float:
        """Of a sample: divided by one less than the count."""
        if self.count < 2:
            return 0.0
        squares = sum((Fraction(sums[1], part * part) for part, sums in self._sums.items()), Fraction())
        return _root((squares - self._total() ** 2 / self.count) / (self.count - 1))

    def to_json(self) -> dict[str, float]:
        return {
            "Total # non-null values": self.count,
            "Average": round_figure(self.mean()),
            "Min": round_figure(float(self.min)),
            "Max": round_figure(float(self.max)),
            "Standard deviation": round_figure(self.deviation()),
        }

    def _total(self) -> Fraction:
        return sum((Fraction(sums[0], part) for part, sums in self._sums.items()), Fraction())


def round_figure(value: float) -> float:
    return round(value, 2 if abs(value) >= 1 else 3)


def _root(value: Fraction) -> float:
    """Squares of large numbers do not fit a float, their root does."""
    shift = max(0, (value.numerator.bit_length() - value.denominator.bit_length()) // 2 - 500)
    try:
        return math.ldexp(math.sqrt(value / (1 << 2 * shift)), shift)
    except OverflowError:
        return sys.float_info.max
