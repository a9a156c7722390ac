"""Multi-hop questions with short answers, given as JSON: found in the answer, in any of the truth's spellings."""

from typing import Annotated, Any

from pydantic import StringConstraints
from scores import Scores, equals_any, read_answer, score
from spellings import why_unreliable

from gym.server import ResourcesConfig, ResourcesServer, Score, VerifyRequest
from gym.server.slots import is_withdrawn
from gym.wire.pass_rates import pass_and_majority


class HotpotqaConfig(ResourcesConfig):
    report_filtered_metrics: bool = True
    strict: bool = False


class HotpotqaTask(VerifyRequest):
    expected_answer: Annotated[str, StringConstraints(pattern=r"\S")]


class HotpotqaScore(Score):
    extracted_answer: str | None
    gt_should_remove: bool
    gt_remove_reason: Any


class Hotpotqa(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: HotpotqaConfig

    async def verify(self, rollout: HotpotqaTask) -> HotpotqaScore:
        """1.0 when the truth stands in the answer as an answer would: early, and as a word of its own."""
        truth = rollout.expected_answer
        answer, as_json = read_answer(rollout.output_text)
        scores = score(answer, truth) if answer.strip() else Scores(0.0, 0.0, 0.0, 0.0)
        reward = scores.is_correct_strict
        reason = "" if reward else "the expected answer does not stand in the answer as one would"
        if self.config.strict:
            reward, reason = strict_reward(rollout.output_text, answer if as_json else None, truth)
        unreliable = why_unreliable(truth)
        return HotpotqaScore(
            reward=reward,
            extracted_answer=answer or None,
            gt_should_remove=bool(unreliable),
            gt_remove_reason=unreliable,
            reason=reason,
            **scores._asdict(),
        )

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        """Each score over all tasks, and over those whose truth can be searched for."""
        rates = _rates(replies)
        if self.config.report_filtered_metrics:
            rates |= {f"filtered_{name}": rate for name, rate in _rates(_reliable(replies)).items()}
        return rates


def strict_reward(text: str, answer: str | None, truth: str) -> tuple[float, str]:
    if is_withdrawn(text.rpartition("}")[2]):
        return 0.0, "strict: the answer is taken back"
    if answer is not None and equals_any(answer, truth):
        return 1.0, ""
    return 0.0, "strict: the answer is not a JSON object whose `answer` is the expected one and no more"


def _rates(replies: list[dict[str, Any]]) -> dict[str, Any]:
    rates: dict[str, Any] = {}
    for name in Scores._fields:
        scored = [{**reply, "reward": reply.get(name, 0.0)} for reply in replies]
        rates |= pass_and_majority(scored, answer="extracted_answer", name=name)
    return rates


def _reliable(replies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [reply for reply in replies if not reply.get("gt_should_remove")]


app = Hotpotqa.app()
