"""Fills the disk of a sandbox that a rollout works in, as far as its limit lets it."""

from __future__ import annotations

import random
from typing import Any, Final

import orjson

from gym import labels
from gym.chaos.chaos_setup import Fault, Missed
from gym.chaos.engine_things import is_in_use
from gym.engine import connect, engine_host

FILE: Final = "/tmp/chaos"  # noqa: S108  (of the sandbox)
MAX_BYTES: Final = 1 << 30  # of this machine's own disk no more is taken


class SandboxDisks:
    """`filled` counts them: the policy could have done that, so 0 is right as well for as many rollouts."""

    def __init__(self, project: str, chance: random.Random) -> None:
        self._project = project
        self._chance = chance
        self.filled = 0

    def fault(self) -> Fault:
        return Fault("disk", ("sandbox",), lambda _: self._fill())

    def _fill(self) -> None:
        import docker.errors  # noqa: PLC0415  (as in gym.engine)

        with connect(engine_host()) as client:
            listed = client.api.containers(filters={"label": f"{labels.STACK}={self._project}"})
            found = [(one["Id"], size) for one in listed if is_in_use(one) and (size := _limit(one))]
            if not found:
                raise Missed("sandbox")
            id, size = self._chance.choice(found)
            self.filled += 1
            words = ["sh", "-c", f"head -c {size} /dev/zero > {FILE}"]
            try:
                client.api.exec_start(client.api.exec_create(id, words)["Id"])
            except docker.errors.APIError as error:  # it has ended, perhaps of this
                raise Missed("sandbox") from error


def _limit(listed: dict[str, Any]) -> int:
    """0: it has none that may be tried on this machine's disk."""
    try:
        spec = orjson.loads((listed.get("Labels") or {}).get(labels.SANDBOX_SPEC, ""))
        size = int(spec["limits"]["disk"] or 0)
    except (ValueError, LookupError, TypeError):
        return 0
    return size if size <= MAX_BYTES else 0
