"""Judging proofs: the policy reads a problem and a proof and says whether the proof is right."""

from typing import Any

from judgement import LABELS, classifier_rates, confusion, read_judgement, without_thoughts
from rows import MathProofJudgementScore, MathProofJudgementTask

from gym.server import ResourcesConfig, ResourcesServer
from gym.wire.pass_rates import pass_and_majority

COUNTED = {"tp": "true_positive", "fp": "false_positive", "fn": "false_negative", "tn": "true_negative"}


class MathProofJudgementConfig(ResourcesConfig):
    skills_parity_mode: bool = False  # read the thoughts as well
    strict: bool = False


class MathProofJudgement(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: MathProofJudgementConfig

    async def verify(self, rollout: MathProofJudgementTask) -> MathProofJudgementScore:
        """1.0 when the judgement is the expected one."""
        text = rollout.joined_text
        said = read_judgement(
            text if self.config.skills_parity_mode else without_thoughts(text), strict=self.config.strict
        )
        truth = read_judgement(rollout.expected_judgement)
        reason = "" if said is truth else "no judgement was given" if said is None else "the judgement is wrong"
        counts = confusion(said, truth)
        return MathProofJudgementScore(
            reward=float(said is truth), extracted_judgement=LABELS[said], reason=reason, **counts
        )

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        rates = pass_and_majority(replies, answer="extracted_judgement")
        for field, name in COUNTED.items():
            counted = [{**reply, "reward": reply.get(field, 0.0)} for reply in replies]
            rates |= pass_and_majority(counted, answer="extracted_judgement", name=name)
        return rates | classifier_rates(replies)


app = MathProofJudgement.app()
