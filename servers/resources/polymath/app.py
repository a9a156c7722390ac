"""Mathematics in eighteen languages and four difficulties: the answer has to be equal to the expected one."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints
from weights import weighted_rates

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.config import Settings
from gym.server.mathematics import Mathematics
from gym.wire.failures import RolloutError
from gym.wire.pass_rates import pass_and_majority, pass_and_majority_by

SCORE = "symbolic_accuracy"


class PolymathConfig(ResourcesConfig):
    library_verifier_timeout_seconds: float = Field(10.0, gt=0)  # of CPU time
    library_verifier_max_concurrency: int = Field(4, ge=1)
    should_use_judge: Literal[False] = False  # math_with_judge has one
    judge_model_server: Any = None  # configurations name one, which is never asked
    judge_responses_create_params: Any = None
    strict: bool = False


class PolymathTask(VerifyRequest):
    question: str
    expected_answer: Annotated[str, StringConstraints(pattern=r"\S", max_length=8_000)]
    weight: float | None = Field(None, gt=0)
    language: str | None = None


class Polymath(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: PolymathConfig

    def __init__(self, config: PolymathConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.strict = config.strict
        self.mathematics = Mathematics(
            seconds=config.library_verifier_timeout_seconds, count=config.library_verifier_max_concurrency
        )

    async def verify(self, rollout: PolymathTask) -> dict[str, Any]:
        """1.0 when math-verify finds the answer equal to the expected one."""
        text = rollout.output_text
        if not text.strip():
            return _reply(False, None, "the answer is empty")
        compare = self.mathematics.compare_box if self.strict else self.mathematics.compare
        told = await compare(rollout.expected_answer, text)
        if told.hedged:
            return _reply(False, told.extracted, f"strict: {told.hedged}")
        if told.bad_gold:
            raise RolloutError("row", f"expected_answer: {rollout.expected_answer[:200]!r} is no mathematics")
        if told.too_costly:
            reply = _reply(False, None, f"comparing the answer costs too much ({told.too_costly})")
            return {**reply, "library_error": told.too_costly}
        reason = "the answer holds no mathematics" if told.extracted is None else "the answer is not equal"
        return _reply(told.equal, told.extracted, "" if told.equal else reason)

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        """Over all tasks, over those of each language, and with each task counted by its weight."""
        rates = pass_and_majority(replies, answer="extracted_answer", name=SCORE)
        rates |= pass_and_majority_by("language", replies, answer="extracted_answer", name=SCORE)
        return rates | weighted_rates(replies, answer="extracted_answer", name=SCORE)

    async def stop(self) -> None:
        await super().stop()
        await self.mathematics.close()


def _reply(equal: bool, extracted: str | None, reason: str) -> dict[str, Any]:
    reward = float(equal)
    fields = {"reward": reward, "library_reward": reward, "extracted_answer": extracted, "judge_evaluations": None}
    return {**fields, "reason": reason} if reason else fields


app = Polymath.app()
