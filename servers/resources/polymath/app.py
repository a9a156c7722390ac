"""Mathematics in eighteen languages and four difficulties: the answer has to be equal to the expected one."""

from typing import Any, Literal

from pydantic import Field
from rows import PolymathScore, PolymathTask, score
from weights import weighted_rates

from gym.server import ResourcesConfig, ResourcesServer
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


class Polymath(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: PolymathConfig

    async def start(self) -> None:
        seconds, count = self.config.library_verifier_timeout_seconds, self.config.library_verifier_max_concurrency
        self.mathematics = self.own(Mathematics(seconds=seconds, count=count))

    async def verify(self, rollout: PolymathTask) -> PolymathScore:
        """1.0 when math-verify finds the answer equal to the expected one."""
        text = rollout.output_text
        if not text.strip():
            return score(False, None, "the answer is empty")
        compare = self.mathematics.compare_box if self.config.strict else self.mathematics.compare
        comparison = await compare(rollout.expected_answer, text)
        if comparison.hedged:
            return score(False, comparison.extracted, f"strict: {comparison.hedged}")
        if comparison.bad_gold:
            raise RolloutError("row", f"expected_answer: {rollout.expected_answer[:200]!r} is not mathematics")
        if comparison.too_costly:
            failed = score(False, None, f"comparing the answer costs too much ({comparison.too_costly})")
            failed.library_error = comparison.too_costly
            return failed
        reason = "the answer holds no mathematics" if comparison.extracted is None else "the answer is not equal"
        return score(comparison.equal, comparison.extracted, "" if comparison.equal else reason)

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        """Over all tasks, over those of each language, and with each task counted by its weight."""
        rates = pass_and_majority(replies, answer="extracted_answer", name=SCORE)
        rates |= pass_and_majority_by("language", replies, answer="extracted_answer", name=SCORE)
        return rates | weighted_rates(replies, answer="extracted_answer", name=SCORE)


app = Polymath.app()
