"""The model as one program in a sandbox sees it, on connections out of the sandbox alone."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from gym.server.adapters.model_gate import ModelGate
from gym.server.adapters.play_tools import PlayLimits
from gym.server.asgi import Answer
from gym.server.rollout_client import RolloutClient
from gym.wire.failures import RolloutError
from gym.wire.json_text import write_json


class ProgramGate(ModelGate):
    """Remembers what failed, for a program that ends because of it has not failed by its own doing."""

    def __init__(self, rollout: RolloutClient, params: Mapping[str, Any], limits: PlayLimits, model: str) -> None:
        super().__init__(rollout, params, limits, model)
        self.max_seconds = math.inf  # of the program itself, as `seconds_used` counts them
        self._failed: dict[bytes, RolloutError] = {}  # requests that the infrastructure left without an answer
        self._first: tuple[float, float] | None = None  # when the first answer came, and the clock's seconds by then

    @property
    def failure(self) -> RolloutError | None:
        """Of a call that has not been answered since, however often the program asked again."""
        return next(iter(self._failed.values()), None)

    def seconds_used(self) -> float:
        """By the program itself, since it had its first answer: before it, the policy had no part in anything."""
        if self._first is None:
            return 0.0
        at, waited = self._first
        return time.monotonic() - at - (self.clock.seconds() - waited)

    def note_failure(self, body: bytes, error: RolloutError) -> None:
        self._failed[sha256(body).digest()] = error

    def note_answer(self, body: bytes) -> None:
        self._failed.pop(sha256(body).digest(), None)
        self._first = self._first or (time.monotonic(), self.clock.seconds())

    async def answer(self, method: str, path: str, headers: Mapping[bytes, bytes], body: bytes) -> Answer:
        """Some programs look whether a server is there, and what models it has, before they show a key."""
        if method not in ("GET", "HEAD"):
            return await super().answer(method, path, headers, body)
        if path == "/v1/models":
            return self.list_models()
        return Answer(write_json(self.describe_model() if path.startswith("/v1/models/") else {"status": "ok"}))
