"""How often each row was passed when it was last tried: five bytes for each, whatever the number of epochs."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

import orjson

from gym.trainers.group_options import Curriculum

_UNKNOWN: Final = 255
_STEPS: Final = 200  # a pass rate as a byte: in steps of half a percent, and exact at both ends
_MEMORY: Final = 0.1  # the weight of the newest group in the rate of a part


class PassRates:
    """Of one part of a blend. Rows are known by their number, which is the same in every epoch."""

    def __init__(self, rules: Curriculum) -> None:
        self._rules = rules
        self._rates = array("B")
        self._epochs = array("I")  # of the last measurement

    def wants(self, number: int, epoch: int, raw: bytes) -> bool:
        """True when the row is worth a group in this epoch."""
        rate = self._rate(number)
        if rate is None:
            return not self._rests_by_prior(number, epoch, raw)
        return self._is_between(rate) or epoch - self._epochs[number] > self._rules.rest

    def measure(self, number: int, epoch: int, rewards: Sequence[float]) -> float:
        """Takes note of a group's rewards; its pass rate."""
        rate = sum(reward >= self._rules.passes_at for reward in rewards) / len(rewards)
        self._note(number, epoch, rate)
        return rate

    def _rests_by_prior(self, number: int, epoch: int, raw: bytes) -> bool:
        prior = _prior(raw, self._rules.prior) if self._rules.prior else None
        if prior is None or self._is_between(prior):
            return False
        self._note(number, epoch, prior)
        return True

    def _rate(self, number: int) -> float | None:
        if number >= len(self._rates) or self._rates[number] == _UNKNOWN:
            return None
        return self._rates[number] / _STEPS

    def _is_between(self, rate: float) -> bool:
        return self._rules.low < rate < self._rules.high

    def _note(self, number: int, epoch: int, rate: float) -> None:
        if (missing := number + 1 - len(self._rates)) > 0:
            self._rates.extend(array("B", (_UNKNOWN,)) * missing)
            self._epochs.extend(array("I", (0,)) * missing)
        step = round(rate * _STEPS)
        if 0 < rate < 1:  # rare passes are not never
            step = min(max(step, 1), _STEPS - 1)
        self._rates[number], self._epochs[number] = step, epoch


class RunningRate:
    """The pass rate of a part over its last groups."""

    def __init__(self) -> None:
        self.rate: float | None = None
        self.groups = 0

    def add(self, rate: float) -> None:
        self.groups += 1
        weight = max(_MEMORY, 1 / self.groups)
        self.rate = rate if self.rate is None else self.rate + weight * (rate - self.rate)


def _prior(raw: bytes, name: str) -> float | None:
    """A row that is not JSON is reported by who reads it next."""
    try:
        row: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    value = row.get(name) if isinstance(row, dict) else None
    return float(value) if isinstance(value, (int, float)) and 0 <= value <= 1 else None
