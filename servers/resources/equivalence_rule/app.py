"""Short answers compared with the expected one by a rule: the same text, or how much of it is the same."""

from typing import Annotated

from pydantic import StringConstraints
from rules import ENOUGH, GradingRule, exact, is_hopeless

from gym.server import ResourcesConfig, ResourcesServer, Score, VerifyRequest
from gym.server.hedges import hedge
from gym.server.worker_pool import worker_pool
from gym.server.workers import Workers


class EquivalenceRuleConfig(ResourcesConfig):
    grading_rule: GradingRule = "exact"
    strict: bool = False


class EquivalenceRuleTask(VerifyRequest):
    expected_answer: Annotated[str, StringConstraints(pattern=r"\S")]  # of nothing, an empty answer would be worth 1


class EquivalenceRuleScore(Score):
    equivalence_score: float


class EquivalenceRule(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: EquivalenceRuleConfig
    workers: Workers = worker_pool("rules", cpu_seconds=20.0)

    async def verify(self, rollout: EquivalenceRuleTask) -> EquivalenceRuleScore:
        """The score that the rule gives."""
        score, reason = await self.grade(rollout.output_text, rollout.expected_answer)
        return EquivalenceRuleScore(reward=score, equivalence_score=score, reason="" if score == 1.0 else reason)

    async def grade(self, answer: str, expected: str) -> tuple[float, str]:
        if not answer.strip():
            return 0.0, "the answer is empty"
        if self.config.grading_rule == "exact":
            return exact(answer, expected, strict=self.config.strict), "the answer is another text"
        if is_hopeless(answer, expected):
            return 0.0, "the answer is far longer than the expected one"
        if self.config.strict and (why := hedge(answer, expected)):
            return 0.0, f"strict: {why}"
        score = float(await self.workers.call("likeness", self.config.grading_rule, answer, expected))
        if self.config.strict and score < ENOUGH:
            return 0.0, f"the answer is {score:.2f} like the expected one, and strict asks for {ENOUGH:g}"
        return score, f"the answer is {score:.2f} like the expected one"


app = EquivalenceRule.app()
