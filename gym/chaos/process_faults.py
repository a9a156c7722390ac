"""Faults of a stack on the local runtime: its processes by identity, its supervisor and its warden among them."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gym.chaos.chaos_setup import Fault, Missed, draw_seconds
from gym.chaos.engine_things import labelled_things
from gym.engine import engine_answers
from gym.runtime.identity import Identity, find_marked, is_alive
from gym.runtime.local.home import Home
from gym.runtime.local.pid_file import marker, read_record
from gym.wire.stack_names import SANDBOX, project_name

SUPERVISOR: Final = "supervisor"
WARDEN: Final = "warden"
LONGEST_PAUSE: Final = 12.0
LONGEST_SKEW: Final = 8.0
CLOCK_FILE: Final = "FAKETIME_TIMESTAMP_FILE"


class LocalTarget:
    """What can be done to it, what it is made of, and what of it should not be there."""

    left_out: tuple[str, ...] = (
        "cut, slow: processes of the local runtime share the network of this machine",
        "crash: the same as kill, where no engine stands between",
    )

    def __init__(self, home: Path, chance: random.Random) -> None:
        self._home = Home(home.resolve())
        self._chance = chance
        has_broker = SANDBOX in self.processes() and engine_answers() is not None
        self.project = project_name(self._home.path.name, self._home.path) if has_broker else ""

    def faults(self) -> list[Fault]:
        everything = tuple(self.processes())
        found = [Fault("kill", everything, self._kill), Fault("pause", everything, self._pause)]
        clocks = tuple(name for name, one in self.processes().items() if _clock_file(one))
        return [*found, Fault("clock", clocks, self._skew)] if clocks else found

    def processes(self) -> dict[str, list[Identity]]:
        """By name; the first leads, the others are of its session."""
        record = read_record(self._home)
        if record is None:
            return {}
        owners = {SUPERVISOR: record.supervisor} | ({WARDEN: record.warden} if record.warden else {})
        return {name: [one] for name, one in (record.processes | owners).items() if is_alive(one)}

    def things(self) -> set[str]:
        """Processes that carry the stack's marker and are of none of the sessions that it knows; on the engine, what
        its broker made."""
        known = {one.pid for group in self.processes().values() for one in group}
        strays = [one for one, session in find_marked(marker(self._home)) if session not in known]
        made = labelled_things(self._home.path, self.project) if self.project else set()
        return made | {f"process {one.pid}" for one in strays if is_alive(one)}

    def is_complete(self) -> bool:
        """Supervisor and warden too: a fault that meets one without the other shows what is not promised."""
        record = read_record(self._home)
        return (
            record is not None and record.warden is not None and all(map(is_alive, (record.supervisor, record.warden)))
        )

    def _leader(self, victim: str) -> Identity:
        found = self.processes().get(victim)
        if not found:
            raise Missed(victim)
        return found[0]

    def _kill(self, victim: str) -> None:
        _send(self._leader(victim), signal.SIGKILL)

    def _pause(self, victim: str) -> None:
        one = self._leader(victim)
        _send(one, signal.SIGSTOP)
        try:
            time.sleep(draw_seconds(self._chance, LONGEST_PAUSE))
        finally:
            with contextlib.suppress(Missed):  # its supervisor may have replaced it
                _send(one, signal.SIGCONT)

    def _skew(self, victim: str) -> None:
        path = _clock_file([self._leader(victim)])
        if path is None:
            raise Missed(victim)
        path.write_text(self._chance.choice(("+1d", "-1d")))
        try:
            time.sleep(draw_seconds(self._chance, LONGEST_SKEW))
        finally:
            path.write_text("+0")


def _send(one: Identity, number: signal.Signals) -> None:
    try:
        if is_alive(one):
            os.kill(one.pid, number)
            return
    except ProcessLookupError:
        pass
    raise Missed(f"process {one.pid}")


def _clock_file(group: list[Identity]) -> Path | None:
    """Of a process that was started under libfaketime, so that its clock can be moved."""
    return next((Path(one) for one in _variables(group[0], CLOCK_FILE) if one), None)


def _variables(one: Identity, name: str) -> Iterator[str]:
    try:
        text = Path(f"/proc/{one.pid}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return
    yield from (line.partition("=")[2] for line in text.split("\0") if line.startswith(f"{name}="))
