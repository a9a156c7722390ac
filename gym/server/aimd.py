"""How many calls go out at once, decided from how earlier ones ended: additive increase, multiplicative decrease.

Pure: its clock is the calls themselves. What fewer calls at once do not fix is noise, and no limit.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal

End = Literal["done", "refused", "other"]  # other: it says nothing of how much the peer bears

PROOF = 4  # refusals in a window that are more than chance
PERIOD = 300  # calls until the limit is back where it was cut
CUT, KNOWN_CUT = 0.7, 0.85  # of the calls under way stays; the second where a trial has shown the limit to be real
KNEE = 0.95  # of where it was cut: the level that is gone back to fast
DRY = 16  # refusals without a success between them: the peer refuses everything
NOISE = 0.3  # a larger share of refusals is not noise: cut on
FEW = 0.03  # a share of refusals that is left below a limit; with more the limit is lower still
QUIET = 0.002  # the share expected below a limit
SLOWER = 4  # beyond where it was cut
SURE = 3.0  # log of the odds that decide a trial
FORGET = 1000  # calls after which a finding is tested again
TRUSTED = 3  # trials in a row that showed a limit: one that says noise is believed less
FEWEST = 20  # calls that a trial takes before it says noise
LIKELY = 1.0  # log of the odds that say noise at its end
CHANCE = 2.5  # standard deviations


@dataclass(slots=True)
class _Trial:
    """What was seen before the cut, to be compared with what is seen after it."""

    limit: float
    share: float
    refused: int
    calls: int


class Aimd:
    """`start` gives each call its number; `observe` takes its end and gives the limit from there on."""

    def __init__(
        self, max_limit: float = math.inf, *, least: float = 1.0, proof: int = PROOF, period: int = PERIOD
    ) -> None:
        self.limit = self.max_limit = max_limit
        self.least = min(least, max_limit)
        self.cuts = 0
        self.dry = 0  # refusals since the last success
        self._proof, self._period, self._window = proof, period, period * 2 // 3
        self._started = 0
        self._since = 1  # calls before this one say nothing of the limit as it is
        self._refused: deque[int] = deque()
        self._peak = 0  # of calls under way since then
        self._knee = max_limit  # where the limit was when it was cut
        self._grown = 0  # successes since then
        self._trial: _Trial | None = None
        self._noise, self._noise_until = 0.0, 0  # the share of refusals that fewer calls did not fix
        self._real, self._real_until = 0.0, 0  # a limit that a trial has shown
        self._shown = 0  # trials in a row that have shown one

    @property
    def is_shut(self) -> bool:
        """One call at a time is too much as well."""
        return self.limit <= self.least and self.dry >= PROOF

    def start(self) -> int:
        self._started += 1
        return self._started

    def observe(self, number: int, end: End, in_flight: int) -> float:
        """`in_flight` counts this call, too."""
        self._peak = max(self._peak, in_flight)
        if end == "done":
            self._succeed(in_flight)
        elif end == "refused":
            self._refuse(number)
        return self.limit

    def _succeed(self, in_flight: int) -> None:
        self.dry = 0
        if self._trial is not None:
            self._judge(self._trial)
        elif self.limit < self.max_limit and in_flight * 2 >= self.limit:  # room that is not used tells nothing
            self._grow()

    def _grow(self) -> None:
        """Fast up to where it was cut, flat around there, faster again beyond."""
        if self._grown >= self._period and self._count() > self._expected():
            return
        self._grown += 1
        beyond = self._grown - self._period
        way = 1 + beyond / (self._period if beyond < 0 else self._period * SLOWER)
        curve = self._knee * (1 + (1 - CUT) * (way - 1) ** 3)
        self.limit = min(max(self.limit, min(self.limit + 1, curve)), self.max_limit)

    def _refuse(self, number: int) -> None:
        self.dry += 1
        if self.dry == DRY and self.limit > self.least:
            self._collapse()
        if number < self._since:  # of many that were sent together, the first few count
            return
        self._refused.append(number)
        expected = self._expected()
        if self._trial is None:
            is_too_much = self._count() >= self._proof + expected + CHANCE * math.sqrt(expected)
        else:
            is_too_much = self._count() >= self._proof and self._share() > NOISE
        if is_too_much:
            self._cut()
        elif self._trial is not None:
            self._judge(self._trial)

    def _cut(self) -> None:
        used = min(self.limit, self._peak)
        is_known = self._started < self._real_until and self._grown >= self._period and used >= self._real * 0.8
        trial = self._open_trial()
        if is_known or trial.share > NOISE:
            self._trial = None
        else:
            self._trial = trial
        if self.dry < DRY:
            self._knee = self._below(used if self._knee == math.inf else max(used, self._knee / 2))
        self._set(used * (KNOWN_CUT if is_known else CUT))
        self._grown = self._way_back(KNOWN_CUT) if is_known else 0

    def _open_trial(self) -> _Trial:
        """What the last refusals say: those before them may be of better times."""
        refused = min(self._proof, len(self._refused))
        calls = self._started - self._refused[-refused] + 1
        share = max(refused - 1, 1) / calls if calls > 1 else 1.0
        return _Trial(self.limit, share, refused, calls)

    def _collapse(self) -> None:
        """Nothing gets through: one at a time, and back by one more for each success when it is over."""
        if self._knee == math.inf:
            self._knee = self._below(min(self.limit, self._peak))
        self._set(self.least)
        self._grown, self._trial = 0, None

    def _set(self, limit: float) -> None:
        self.limit = min(self.limit, max(self.least, limit))
        self.cuts += 1
        self._forget(int(self.limit))  # one round: it may still feel what was before
        self._peak = 0

    def _judge(self, trial: _Trial) -> None:
        """Were there as many refusals with fewer calls at once, they are noise; were there none, it is a limit."""
        calls, refused = self._calls(), self._count()
        if calls < FEWEST:
            return
        odds = self._odds(trial, refused, calls)
        is_over = calls >= self._window
        if refused >= (2 if is_over else self._proof) and odds >= (LIKELY if is_over else SURE):
            self._settle(refused / calls)
            self._noise = (trial.refused + refused) / (trial.calls + calls)
            if self._shown < TRUSTED:  # no limit was found there: look higher
                self.limit = self._knee = min(trial.limit / CUT, self.max_limit)
            else:  # a rate that was used up refuses in bursts, which look like noise now and then
                self.limit = self._knee = min(trial.limit, self.max_limit)
            self._shown = 0
            self._grown, self._real_until = self._period, 0
        elif is_over or (odds <= -SURE and calls * 2 >= self._window):
            self._shown += 1
            self._real, self._real_until = min(trial.limit, self._knee / KNEE), self._started + FORGET
            if refused > (FEW + self._known_noise()) * calls:
                self._cut()
            else:
                self._settle(refused / calls if refused > 1 else 0.0)

    def _odds(self, trial: _Trial, refused: int, calls: int) -> float:
        """Of noise, whose share stays, against a limit, which takes the share that is above it."""
        noise = (trial.refused + refused) / (trial.calls + calls)
        fixed = max(QUIET, self._known_noise() / 2, 1 - (1 - trial.share) / CUT)
        if noise <= fixed:
            return -math.inf if calls >= self._window else 0.0
        return refused * math.log(noise / fixed) + (calls - refused) * math.log((1 - noise) / (1 - fixed))

    def _settle(self, noise: float) -> None:
        self._noise, self._noise_until = noise, self._started + FORGET
        self._trial = None
        self._forget()

    def _below(self, limit: float) -> float:
        return max(min(limit * KNEE, limit - 1), self.least)

    def _way_back(self, cut: float) -> int:
        """Successes from which on the curve is at this part of the knee."""
        return int(self._period * (1 - ((1 - cut) / (1 - CUT)) ** (1 / 3)))

    def _forget(self, skipped: int = 0) -> None:
        self._refused.clear()
        self._since = self._started + 1 + skipped

    def _calls(self) -> int:
        """Those that count, by start: refusals end sooner than answers."""
        return min(self._started - self._since + 1, self._window)

    def _count(self) -> int:
        while self._refused and self._refused[0] <= self._started - self._window:
            self._refused.popleft()
        return len(self._refused)

    def _share(self) -> float:
        return self._count() / max(self._calls(), 1)

    def _known_noise(self) -> float:
        return self._noise if self._started < self._noise_until else 0.0

    def _expected(self) -> float:
        return self._known_noise() * self._calls()
