"""Environments of Atropos: the library's own class plays and scores; the policy is lent to it for one rollout."""

from __future__ import annotations

from typing import Any

from atroposlib.envs.base import BaseEnv
from item_codec import read_item
from lent_policy import POLICY, Exhausted, LentPolicy, RecordedPolicy
from loading import load_environment
from openai import AsyncOpenAI
from pydantic import Field
from scoring import read_score, watched

from gym.server import ResourcesConfig, VerifyRequest
from gym.server.adapters.play_verdict import PlayVerdict
from gym.server.adapters.played_environment import PlayAccess, PlayedEnvironment, PlayRow, judge_unplayed
from gym.wire import items
from gym.wire.failures import RolloutError


class AtroposConfig(ResourcesConfig):
    environment: str  # module:Class
    config: dict[str, Any] = Field(default_factory=dict)  # over what its `config_init` says
    folders: list[str] = Field(default_factory=list)  # a checkout whose modules are to be found
    repeatable: bool = True  # the same item and replies are the same score: /verify plays them again
    policy_errors: list[str] = Field(default_factory=list)  # exceptions that mean: this reply cannot be used


class AtroposTask(VerifyRequest):
    item: Any


class AtroposPlay(PlayRow):
    item: Any  # as `get_next_item` gives it


class Atropos(PlayedEnvironment):
    play_row = AtroposPlay
    config: AtroposConfig

    async def start(self) -> None:
        self.reverify_mode = "stateless" if self.config.repeatable else "unsupported"
        self.environment = await load_environment(self.config.environment, self.config.config, self.config.folders)

    async def play(self, row: AtroposPlay, model: PlayAccess) -> PlayVerdict:
        async with AsyncOpenAI(base_url=model.base_url, api_key=model.key, timeout=None, max_retries=0) as client:
            return await self.score(row.item, LentPolicy(client, model.model))

    async def verify(self, rollout: AtroposTask) -> dict[str, Any]:
        if not self.config.repeatable:
            return judge_unplayed(rollout, f"{self.name} is not repeatable: its agent is play_agent")
        recorded = RecordedPolicy([items.item_text(one) for one in rollout.response.output if items.is_message(one)])
        try:
            return (await self.score(rollout.item, recorded)).to_fields()
        except Exhausted:
            return {"reward": 0.0, "reason": "the rollout ends before the environment has scored it"}

    async def score(self, item: Any, policy: LentPolicy | RecordedPolicy) -> PlayVerdict:
        """What the environment makes of a play by this policy."""
        token = POLICY.set(policy)
        try:
            with watched() as groups:
                trajectory = await self.collect(read_item(item))
        except Exception as error:  # noqa: BLE001 (whose fault it is comes next)
            return self.blame(error, policy)
        finally:
            POLICY.reset(token)
        if policy.failure is not None:
            raise policy.failure
        if not policy.asked:
            what = f"{self.config.environment} asked the policy nothing for {item!r:.200}"
            raise RolloutError("resources", what, retryable=False)
        return read_score(trajectory, groups, name=self.config.environment)

    def blame(self, error: Exception, policy: LentPolicy | RecordedPolicy) -> PlayVerdict:
        """The item's fault before the policy was asked at all; the policy's only where the configuration says so."""
        if policy.failure is not None:
            raise policy.failure from error
        raised = f"{self.config.environment} raised {type(error).__name__}: {error}"[:1000]
        names = {one.__name__ for one in type(error).__mro__}
        if not policy.asked:
            raise RolloutError("row", f"item: {raised}, before it asked the policy", retryable=False) from error
        if not names & set(self.config.policy_errors):
            raise RolloutError("resources", raised, retryable=False) from error
        return PlayVerdict(0.0, {"reason": raised})

    async def collect(self, item: Any) -> Any:
        """By its method for one trajectory, where it has one: the library's own for groups refuses None."""
        own = self.environment
        if type(own).collect_trajectories is BaseEnv.collect_trajectories:
            return (await own.collect_trajectory(item))[0]
        group, _ = await own.collect_trajectories(item)
        return await own.postprocess_histories(group) if group else group


app = Atropos.app()
