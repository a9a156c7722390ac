"""How sure a mean is: bootstrap intervals and a paired test, seeded, so that the same numbers give the same answer."""

from __future__ import annotations

import math
import random
import statistics
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import product
from operator import itemgetter
from typing import NamedTuple

from gym.collect.study.in_steps import STEP, Steps

RESAMPLES = 1000
MAX_DRAWN = 1000  # of more values the normal interval is taken: by then the bootstrap's differs from it by little
FLIPS = 10_000
EXACT = 13  # up to here all 2**n signs are tried
MAX_FLIPPED = 1000
LEVEL = 0.95
_FLIPS_A_STEP = 100  # of a thousand pairs: 5 ms
_SEED = 20_260_101
_NORMAL = statistics.NormalDist().inv_cdf(0.5 + LEVEL / 2)
_ROUNDING = 1e-9  # sums of the same numbers in another order


class Interval(NamedTuple):
    low: float
    high: float


class Sample:
    """A mean and its interval; of many values only three numbers are stored."""

    __slots__ = ("_highest", "_lowest", "_mean", "_spread", "_values", "count")

    def __init__(self, values: Iterable[float] = ()) -> None:
        self.count = 0
        self._mean = self._spread = 0.0
        self._lowest, self._highest = math.inf, -math.inf
        self._values = array("d")
        for value in values:
            self.add(value)

    def add(self, value: float, times: int = 1) -> None:
        if self.count < MAX_DRAWN:
            self._values.extend([value] * min(times, MAX_DRAWN - self.count))
        self.count += times
        self._lowest, self._highest = min(self._lowest, value), max(self._highest, value)
        apart = value - self._mean
        self._mean += apart * times / self.count
        self._spread += apart * (value - self._mean) * times

    @property
    def mean(self) -> float:
        """Without the rounding of a running mean where there are few values."""
        return statistics.fmean(self._values) if self.count <= MAX_DRAWN else self._mean

    @property
    def deviation(self) -> float:
        return math.sqrt(self._spread / (self.count - 1)) if self.count > 1 else 0.0

    @property
    def interval(self) -> Interval | None:
        """Of 95 %, by resampling the values; one value alone has no interval."""
        if self.count < 2:
            return None
        if not self._spread:
            return Interval(self.mean, self.mean)
        if self.count > MAX_DRAWN:
            reach = _NORMAL * self.deviation / math.sqrt(self.count)
            return normal_interval(self._mean, reach, self._lowest, self._highest)  # the bootstrap's stays in there too
        values = self._values
        means = sorted(sum(drawn(values)) / self.count for drawn in _draws(self.count))
        return Interval(_quantile(means, (1 - LEVEL) / 2), _quantile(means, (1 + LEVEL) / 2))


def normal_interval(mean: float, reach: float, lowest: float, highest: float) -> Interval:
    """No further than the mean can be, where that is known: between `lowest` and `highest`."""
    return Interval(max(mean - reach, lowest), min(mean + reach, highest))


def sample_in_steps(values: Iterable[float]) -> Steps[Sample]:
    """Its resamples are drawn by then, so that its interval is at hand."""
    found = Sample()
    for count, value in enumerate(values, 1):
        found.add(value)
        if not count % STEP:
            yield
    yield
    if 1 < found.count <= MAX_DRAWN:
        _draws(found.count)
        yield
    return found


def p_value_in_steps(differences: Sequence[float]) -> Steps[float]:
    """The chance of a mean difference this far from 0 if each pair's sign were a coin's: a permutation test."""
    moved = [one for one in differences if one]
    observed = abs(math.fsum(moved))
    if not moved:
        return 1.0
    if len(moved) > MAX_FLIPPED:
        spread = math.sqrt(math.fsum(one * one for one in moved))
        return math.erfc(observed / spread / math.sqrt(2))
    reached = observed - _ROUNDING * max(observed, 1.0)
    if len(moved) <= EXACT:
        sums = (abs(sum(signed)) for signed in product(*((one, -one) for one in moved)))
        return sum(one >= reached for one in sums) / float(2 ** len(moved))
    source = random.Random(_SEED)
    total = math.fsum(moved)
    hits = 0
    for flips in range(FLIPS):
        hits += abs(total - 2 * _flipped(moved, source)) >= reached
        if not flips % _FLIPS_A_STEP:
            yield
    return (hits + 1) / (FLIPS + 1)  # the observed signs are one of the possible ones


def _flipped(moved: Sequence[float], source: random.Random) -> float:
    """The sum of those whose coin showed tails."""
    bits = bin(source.getrandbits(len(moved)) | 1 << len(moved))[3:]
    return sum(one for one, bit in zip(moved, bits, strict=True) if bit == "1")


@lru_cache(maxsize=2)
def _draws(count: int) -> tuple[Callable[[Sequence[float]], tuple[float, ...]], ...]:
    """The same resamples for every metric of as many tasks."""
    source = random.Random(_SEED)
    places = tuple(range(count))  # shared by all draws
    return tuple(itemgetter(*source.choices(places, k=count)) for _ in range(RESAMPLES))


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
