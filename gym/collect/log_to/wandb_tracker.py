"""Weights & Biases, by its own package: WANDB_PROJECT, WANDB_MODE=offline and such hold as they do for any program."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import wandb

from gym.collect.log_to.trackers import PROJECT, RunFacts, SampleRollout

STEP = "rollouts"


class WandbTracker:
    def __init__(self, facts: RunFacts) -> None:
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            name=facts.name,
            id=facts.key or None,
            resume="allow" if facts.key else None,
            config=dict(facts.config),
            settings=wandb.Settings(silent=True, console="off", login_timeout=1, x_disable_stats=True),
        )
        self._run.define_metric(STEP)
        self._run.define_metric("*", step_metric=STEP)
        self.key: str = self._run.id

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({STEP: step, **values})

    def log_samples(self, step: int, samples: Sequence[SampleRollout]) -> None:
        table = wandb.Table(columns=list(SampleRollout._fields), data=[list(one) for one in samples])
        self._run.log({STEP: step, "samples": table})

    def close(self, *, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


def open_tracker(facts: RunFacts) -> WandbTracker:
    return WandbTracker(facts)
