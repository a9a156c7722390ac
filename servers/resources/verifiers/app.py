"""Tasksets and environments of the verifiers package, 0.4: it plays and judges, the policy is lent to it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import verifiers.v1 as vf
from afterwards import score, why_never
from pydantic import Field, ValidationError
from tasksets import load_env
from verdicts import read_episode, read_scores, scoring_error

from gym.server import ResourcesConfig, VerifyRequest
from gym.server.adapters.play_verdict import PlayVerdict
from gym.server.adapters.played_environment import PlayAccess, PlayedEnvironment, PlayRow, judge_unplayed
from gym.wire.failures import RolloutError

NO_KEY = "GYM_HAS_NO_SUCH_VARIABLE"  # the package wants the name of one; the policy's key is a header


class VerifiersConfig(ResourcesConfig):
    environment: dict[str, Any]  # verifiers' own [env] block: taskset, seats, limits
    max_turns: int | None = Field(default=None, ge=1)  # of a seat that sets none itself


class VerifiersTask(VerifyRequest):
    taskset: str
    task: dict[str, Any]  # the taskset's own data of this task


class VerifiersPlay(PlayRow):
    taskset: str
    task: dict[str, Any]


class Verifiers(PlayedEnvironment):
    play_row = VerifiersPlay
    config: VerifiersConfig

    async def start(self) -> None:
        self.env = load_env(self.config.environment, max_turns=self.config.max_turns)
        self.never = why_never(self.env)
        self.reverify_mode = "unsupported" if self.never else "stateless"
        self.serving = self.own(AsyncExitStack())
        await self.serving.enter_async_context(self.env.serving())

    async def play(self, row: VerifiersPlay, model: PlayAccess) -> PlayVerdict:
        client = vf.EvalClientConfig(base_url=model.base_url, api_key_var=NO_KEY, headers={"x-api-key": model.key})
        (slot,) = self.env.slots(task := self.task_of(row))
        episode = await self.env.run_slot(slot, vf.ModelContext(model=model.model, client=client))
        error = scoring_error(episode)
        if error is None or self.never:
            return read_episode(episode)
        blamed = await self.blame(task, row.responses_create_params.input, vf.TaskError(error.message))
        return PlayVerdict(blamed.pop("reward"), blamed)

    async def verify(self, rollout: VerifiersTask) -> dict[str, Any]:
        task = self.task_of(rollout)
        if self.never:
            return judge_unplayed(rollout, f"{self.never}: it cannot be judged afterwards, its agent is play_agent")
        asked = rollout.responses_create_params.input
        try:
            trace = await score(self.env, task, asked, rollout.response.output)
        except vf.TaskError as error:
            return await self.blame(task, asked, error)
        return {**read_scores(trace), "reward": trace.reward}

    async def blame(self, task: vf.Task, asked: Any, error: vf.TaskError) -> dict[str, Any]:
        """A function that raises over an empty answer too is broken; else the answer was one that it cannot read."""
        try:
            await score(self.env, task, asked, [])
        except vf.TaskError:
            raise RolloutError("resources", f"{self.env.config.taskset.id}: {error}", retryable=False) from error
        return {"reward": 0.0, "reason": f"cannot be read: {error}"[:500]}

    def task_of(self, row: VerifiersPlay | VerifiersTask) -> vf.Task:
        own = self.env.config.taskset
        if row.taskset != own.id:
            raise RolloutError(
                "row", f"taskset: {row.taskset!r}, and this server has {own.id!r}: see its configuration"
            )
        kind = type(self.env.taskset).task_type()
        try:
            return kind(kind.data_type().model_validate(row.task), own.task)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, ("task", *first["loc"])))
            raise RolloutError("row", f"{place}: {first['msg']}") from None


app = Verifiers.app()
