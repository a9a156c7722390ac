"""A workflow of AReaL: each rollout is one `/run` whose model calls go to AReaL's proxy, which records them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gym.errors import UserError
from gym.trainers.carried_rows import put_endpoint, unpack_row
from gym.trainers.single_attempt import run_single


class GymWorkflow:
    """`PPOTrainer.train(workflow=GymWorkflow(url), ...)`, or its import path with these arguments as keywords."""

    def __init__(self, url: str, *, agent: str = "", token: str = "", model: str = "", timeout: float = 3600.0) -> None:
        """`agent` is for rows that name none; `model` is sent to the proxy, which serves one model only."""
        self._url, self._agent, self._token = url, agent, token
        self._model, self._timeout = model, timeout

    async def run(self, data: Mapping[str, Any], *, base_url: str = "", api_key: str = "", **_: Any) -> float:
        """The reward. A failure is raised, and AReaL rejects the trajectory: it never becomes a reward of 0."""
        base_url = base_url or os.environ.get("OPENAI_BASE_URL", "")  # so in AReaL's subprocess mode
        api_key = api_key or os.environ.get("OPENAI_API_KEY", "")
        if not base_url:
            hint = "leave it to AReaL to call run(), with rollout.agent.mode inline or subproc"
            raise UserError("the workflow was given no endpoint of AReaL's proxy", hint)
        row = put_endpoint(unpack_row(data), base_url, key=api_key, model=self._model)
        rollout = await run_single(self._url, row, agent=self._agent, token=self._token, timeout=self._timeout)
        assert rollout.reward is not None
        return rollout.reward
