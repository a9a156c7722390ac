"""The `gym rollouts` that is disturbed, and that a fault may hit as well: killed, resumed, with another clock."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gym.chaos.chaos_setup import ChaosSetup, Fault, Missed
from gym.errors import InfraError

FAKETIME: Final = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1")
MAX_RESUMES: Final = 20
MAX_ATTEMPTS: Final = 10


class CollectorProcess:
    """One at a time. `starts` counts them."""

    def __init__(self, setup: ChaosSetup, repeats: int) -> None:
        self._setup = setup
        self._repeats = repeats
        self._process: subprocess.Popen[bytes] | None = None
        self._output = Path()
        self.starts = 0

    def start(self, output: Path, clock: Mapping[str, str] | None = None) -> None:
        self._output = output
        self.starts += 1
        with (self._setup.folder / "collectors.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gym", *self._words(output)],
                env={**os.environ, **(clock or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the command, which ends this one itself
            )

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def written(self) -> int:
        """Bytes of rollouts so far."""
        return self._output.stat().st_size if self._output.exists() else 0

    def kill(self) -> None:
        if self._process is None:
            raise Missed("collector")
        self._process.kill()
        self._process.wait()

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code; None where it still runs after so many seconds."""
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        if self.runs:
            self.kill()

    def finish(self, output: Path) -> None:
        """Resumes until nothing is left to do."""
        failures = failures_beside(output)
        for _ in range(MAX_RESUMES):
            self.start(output)
            if self.wait() == 0 and not (failures.exists() and failures.stat().st_size):
                return
        raise InfraError(
            f"The collection of {output} does not come to its end: {MAX_RESUMES} resumes.",
            f"Read {self._setup.folder / 'collectors.log'} and {failures}",
        )

    def faults(self, chance: random.Random) -> list[Fault]:
        libraries = sorted(str(path) for pattern in FAKETIME for path in Path("/").glob(pattern.lstrip("/")))
        skew = [Fault("clock", ("collector",), lambda _: self._skew(libraries[0], chance))] if libraries else []
        return [Fault("collector", ("collector",), lambda _: self._restart({})), *skew]

    def _skew(self, library: str, chance: random.Random) -> None:
        """Another one goes on whose clock is a day ahead or behind; time still passes as it does."""
        shift = {"FAKETIME": chance.choice(("+1d", "-1d")), "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self._restart({"LD_PRELOAD": library, **shift})

    def _restart(self, clock: Mapping[str, str]) -> None:
        self.kill()
        before = self.written
        self.start(self._output, clock)
        while self.runs and self.written <= before:  # its recovery: until it has written a rollout
            time.sleep(0.05)

    def _words(self, output: Path) -> list[str]:
        one = self._setup
        words = ["rollouts", *one.inputs] if not one.agent else ["rollouts", one.agent]
        words += [word for rows in one.inputs for word in ("--input", rows)] if one.agent else []
        how = {"repeats": self._repeats, "concurrency": one.concurrency, "timeout": f"{one.timeout:g}"}
        words += [word for name, value in how.items() for word in (f"--{name}", str(value))]
        words += ["--max-attempts", str(MAX_ATTEMPTS), "-o", str(output), "--stack", one.home.name]
        return [*words, "--through-router"] if one.through_router else words


def failures_beside(output: Path) -> Path:
    return output.with_name(f"{output.stem}_failures.jsonl")
