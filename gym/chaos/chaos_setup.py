"""The options of a chaos run, and a fault as a value."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from gym.errors import UserError
from gym.runtime.protocol import Runtime

FAULTS: Final = {
    "kill": "SIGKILL of a process; `docker kill` of a container",
    "crash": "the first process of a container ends by itself",
    "pause": "stopped for 1 to 12 s",
    "restart": "`gym restart` of an instance",
    "restart-killed": "a `gym restart`, killed halfway",
    "cut": "a container's packets are dropped for 1 to 8 s",
    "slow": "a container's packets are delayed, or one in five is dropped, for 1 to 8 s",
    "disk": "the disk of a sandbox is filled to its limit",
    "collector": "SIGKILL of `gym rollouts`, which is then resumed",
    "clock": "a day is added to or taken from the time that a process sees",
    "model-429": "the model refuses, with Retry-After",
    "model-500": "the model fails",
    "model-garbage": "the model's reply is not JSON",
    "model-slow": "the model takes three seconds longer",
    "model-torn": "the model's reply ends in the middle",
    "engine": "the container engine is restarted",
}


class ModelProxy(NamedTuple):
    """Calls that reach this port of this machine are answered as `url` does, or worse."""

    port: int
    url: str


@dataclass(frozen=True)
class ChaosSetup:
    home: Path
    runtime: Runtime
    inputs: tuple[str, ...]  # what `gym rollouts` is given
    folder: Path  # for outputs and logs
    agent: str = ""
    rollouts: int = 10_000
    minutes: float = 10.0
    max_faults: int | None = None
    seed: int = 1
    faults: tuple[str, ...] = ()  # names or their first words; none: all that are possible
    concurrency: int = 64
    timeout: float = 60.0
    through_router: bool = False
    token: str = ""
    model: ModelProxy | None = None
    engine_restart: str = ""  # a shell command

    def wants(self, fault: str) -> bool:
        return not self.faults or fault in self.faults or fault.partition("-")[0] in self.faults


@dataclass(frozen=True)
class Fault:
    """`hit` does it and undoes what only lasts a while: the clock of the recovery starts when it returns."""

    name: str
    victims: tuple[str, ...]
    hit: Callable[[str], None]


class Missed(Exception):
    """The victim was not there to be hit: it had just ended, or none was made yet."""


class Happening(NamedTuple):
    """One line of what goes on."""

    seconds: float  # since the first fault could come
    text: str


Tell = Callable[[Happening], None]


def check_fault_names(names: tuple[str, ...]) -> None:
    known = {*FAULTS, *(one.partition("-")[0] for one in FAULTS)}
    if unknown := [one for one in names if one not in known]:
        raise UserError(f"--faults {','.join(unknown)}: no fault is called so.", f"There are: {', '.join(FAULTS)}")


def draw_seconds(chance: random.Random, longest: float) -> float:
    return chance.uniform(min(1.0, longest), longest)
