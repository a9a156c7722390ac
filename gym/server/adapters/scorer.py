"""`Scorer`: a library that judges one answer. An author writes `score` in a module of its own, and nothing else.

The module is imported by worker processes alone, so that an answer on which the library hangs, crashes or fills the
memory costs its own reward and no other's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from gym.server.adapters.rewards import check_reward
from gym.server.adapters.text_format import TextFormat
from gym.server.resources import ResourcesConfig, ResourcesServer
from gym.server.workers import WorkerRaised, Workers
from gym.wire.failures import RolloutError
from gym.wire.rows import ReverifyMode, VerifyRequest


class ScorerConfig(ResourcesConfig):
    answer: TextFormat = Field(default_factory=TextFormat)
    scoring_seconds: float = Field(default=20.0, gt=0)  # of CPU time, for one answer
    scoring_workers: int = Field(default=2, ge=1)
    scoring_memory_gb: float = Field(default=4.0, gt=0)


class Scorer(ResourcesServer[None]):
    """Subclass it beside a `scoring.py` with `score(answer, row)`: a number, or a dict with `reward` in it.

    There, `BadRow` blames the row, and `BadAnswer` the answer, which then gets 0.
    """

    reverify_mode: ClassVar[ReverifyMode] = "stateless"
    scoring: ClassVar[str] = "scoring"  # the module
    config: ScorerConfig

    async def start(self) -> None:
        given, memory = self.config, int(self.config.scoring_memory_gb * 2**30)
        self.workers = self.own(
            Workers(
                self.scoring,
                count=given.scoring_workers,
                timeout=given.scoring_seconds,
                memory=memory,
                folder=self.here,
            )
        )

    async def verify(self, rollout: VerifyRequest) -> dict[str, Any]:
        answer = self.config.answer.find(rollout.last_text)
        if not answer:
            return {"reward": 0.0, "reason": f"no answer was found. {self.config.answer.instruction}"}
        row = rollout.model_dump(mode="json", exclude={"response", "responses_create_params"})
        try:
            found = await self.workers.judge("score", answer, row, field="the row", refusal="BadRow")
        except WorkerRaised as error:
            if error.type_name != "BadAnswer":
                raise RolloutError("resources", f"{self.scoring}.score: {error}", retryable=False) from None
            return {"reward": 0.0, "reason": error.message, "extracted_answer": answer}
        fields = dict(found) if isinstance(found, Mapping) else {"reward": found}
        reward = check_reward(fields.get("reward"), f"{self.scoring}.score")
        return {**fields, "reward": reward, "extracted_answer": answer}
