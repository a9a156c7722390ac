"""What a tracker is given and has to do. The package of each is imported by its own module alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

PROJECT: Final = "compose-gym"


class SampleRollout(NamedTuple):
    """One rollout, as a row of a table."""

    task: int
    repeat: int
    agent: str
    reward: float
    asked: str
    answered: str


@dataclass(frozen=True, slots=True)
class RunFacts:
    """`key` is what an earlier run of this output said that a resume goes on with; "" begins a new one."""

    name: str
    folder: Path  # where a tracker that writes files may put them
    key: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)


class Tracker(Protocol):
    key: str  # what a resume goes on with

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """`step` is the number of rollouts and failures so far, those of earlier runs included."""

    def log_samples(self, step: int, samples: Sequence[SampleRollout]) -> None: ...

    def close(self, *, failed: bool) -> None: ...


class Known(NamedTuple):
    module: str  # with an `open_tracker(facts)`
    package: str  # what it imports
    extra: str


NAMES: Final[Mapping[str, Known]] = {
    "wandb": Known("gym.collect.log_to.wandb_tracker", "wandb", "wandb"),
    "mlflow": Known("gym.collect.log_to.mlflow_tracker", "mlflow", "mlflow"),
    "tensorboard": Known("gym.collect.log_to.tensorboard_tracker", "tensorboard", "tensorboard"),
}
