"""Faults that come with a command: `gym restart`, one that is killed halfway, and a restart of the engine."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Final

from gym.chaos.chaos_setup import ChaosSetup, Fault, Missed
from gym.programs import run_program
from gym.wire.route_files import read_discovery

RESTART_SECONDS: Final = 300.0
ENGINE_SECONDS: Final = 300.0
LONGEST_LIFE: Final = 4.0


def command_faults(setup: ChaosSetup, chance: random.Random) -> list[Fault]:
    names = _instances(setup)
    found = [
        Fault("restart", names, lambda name: _restart(setup, name, None)),
        Fault("restart-killed", names, lambda name: _restart(setup, name, chance.uniform(0.3, LONGEST_LIFE))),
    ]
    command = ("sh", "-c", setup.engine_restart)
    engine = Fault("engine", ("engine",), lambda _: _ran(command))
    return [*found, engine] if setup.engine_restart else found


def _restart(setup: ChaosSetup, name: str, killed_after: float | None) -> None:
    argv = [sys.executable, "-m", "gym", "restart", name, "--stack", setup.home.name]
    with (setup.folder / "commands.log").open("ab") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        process.wait(RESTART_SECONDS if killed_after is None else killed_after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ran(command: tuple[str, ...]) -> None:
    run_program(command, timeout=ENGINE_SECONDS)


def _instances(setup: ChaosSetup) -> tuple[str, ...]:
    for path in (setup.home / "discovery.json", setup.home / "discovery" / "discovery.json"):
        if found := read_discovery(path):
            return tuple(found.instances)
    raise Missed("discovery")
