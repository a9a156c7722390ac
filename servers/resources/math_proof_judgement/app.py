"""Judging proofs: the policy reads a problem and a proof and says whether the proof is right."""

from typing import Annotated, Any

from judgement import LABELS, classifier_rates, confusion, read_judgement, without_thoughts
from pydantic import AfterValidator

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.config import Settings
from gym.wire.pass_rates import pass_and_majority

COUNTED = {"tp": "true_positive", "fp": "false_positive", "fn": "false_negative", "tn": "true_negative"}


def _is_judgement(text: str) -> str:
    if read_judgement(text) is None:
        raise ValueError("`Judgement: Yes` or `Judgement: No` is needed")
    return text


class MathProofJudgementConfig(ResourcesConfig):
    skills_parity_mode: bool = False  # read the thoughts as well
    strict: bool = False


class MathProofJudgementTask(VerifyRequest):
    expected_judgement: Annotated[str, AfterValidator(_is_judgement)]
    problem_id: str | None = None
    problem: str | None = None
    proof: str | None = None


class MathProofJudgement(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: MathProofJudgementConfig

    def __init__(self, config: MathProofJudgementConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.strict = config.strict
        self.with_thoughts = config.skills_parity_mode

    async def verify(self, rollout: MathProofJudgementTask) -> dict[str, Any]:
        """1.0 when the judgement is the expected one."""
        text = rollout.joined_text
        said = read_judgement(text if self.with_thoughts else without_thoughts(text), strict=self.strict)
        truth = read_judgement(rollout.expected_judgement)
        fields = {"reward": float(said is truth), "extracted_judgement": LABELS[said], **confusion(said, truth)}
        if said is truth:
            return fields
        return {**fields, "reason": "no judgement was given" if said is None else "the judgement is wrong"}

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        rates = pass_and_majority(replies, answer="extracted_judgement")
        for field, name in COUNTED.items():
            counted = [{**reply, "reward": reply.get(field, 0.0)} for reply in replies]
            rates |= pass_and_majority(counted, answer="extracted_judgement", name=name)
        return rates | classifier_rates(replies)


app = MathProofJudgement.app()
