"""Mathematics compared by math-verify, and by a judge, in both orders, where math-verify sees no equality."""

from typing import Annotated, Any, NamedTuple

from math_prompts import EQUAL, NOT_EQUAL, QUESTION, SYSTEM
from pydantic import Field, StringConstraints

from gym.errors import UserError
from gym.server import Reference, ResourcesServer, Score, VerifyRequest
from gym.server.judge import Judge, JudgeConfig, Prompt
from gym.server.mathematics import Mathematics
from gym.wire.failures import RolloutError
from gym.wire.pass_rates import pass_and_majority

NO_JUDGE = Reference(name="")
LONGEST_SHOWN = 8_000  # characters of an answer without mathematics: its end, as math-verify reads it


class MathWithJudgeConfig(JudgeConfig):
    judge_model_server: Reference = NO_JUDGE
    should_use_judge: bool = True
    library_verifier_timeout_seconds: float = Field(10.0, gt=0)  # of CPU time
    library_verifier_max_concurrency: int = Field(4, ge=1)
    strict: bool = False


class MathTask(VerifyRequest):
    question: str
    expected_answer: Annotated[str, StringConstraints(pattern=r"\S", max_length=8_000)]


class Found(NamedTuple):
    """What the library says; `error` is why it could not say much."""

    equal: bool
    extracted: str | None
    reason: str
    error: RolloutError | None = None
    library_error: str = ""
    hedged: bool = False  # strict: nothing that a judge is asked about


class MathWithJudgeScore(Score):
    extracted_answer: str | None
    library_reward: float
    judge_evaluations: list[dict[str, Any]] | None
    library_error: str = ""  # why the library could not compare


class MathWithJudge(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: MathWithJudgeConfig

    async def start(self) -> None:
        config = self.config
        self.judge = judge_of(self) if config.should_use_judge else None
        self.mathematics = self.own(
            Mathematics(seconds=config.library_verifier_timeout_seconds, count=config.library_verifier_max_concurrency)
        )

    async def verify(self, rollout: MathTask) -> MathWithJudgeScore:
        """1.0 when the library or, in both orders, the judge finds the answer equal to the expected one."""
        text = rollout.output_text
        if not text.strip():
            return score(0.0, Found(False, None, ""), "the answer is empty")
        found = await self._ask_library(rollout.expected_answer, text)
        if found.equal or found.hedged:
            return score(float(found.equal), found, found.reason)
        if self.judge is None and found.error is not None:
            raise found.error
        if self.judge is None:
            return score(0.0, found, found.reason)
        return await self._ask_judge(self.judge, rollout, found, found.extracted or text[-LONGEST_SHOWN:])

    async def _ask_library(self, expected: str, text: str) -> Found:
        compare = self.mathematics.compare_box if self.config.strict else self.mathematics.compare
        comparison = await compare(expected, text)
        if comparison.hedged:
            return Found(False, comparison.extracted, f"strict: {comparison.hedged}", hedged=True)
        if comparison.too_costly:
            reason = f"comparing the answer costs too much ({comparison.too_costly})"
            return Found(False, None, reason, library_error=comparison.too_costly)
        if comparison.bad_gold:
            error = RolloutError("row", f"expected_answer: {expected[:200]!r} is not mathematics")
            return Found(False, comparison.extracted, "the expected answer is not mathematics", error)
        if comparison.extracted is None:
            return Found(comparison.equal, None, "the answer holds no mathematics")
        return Found(comparison.equal, comparison.extracted, "" if comparison.equal else "the answer is not equal")

    async def _ask_judge(self, judge: Judge, rollout: MathTask, found: Found, answer: str) -> MathWithJudgeScore:
        values = {
            "question": rollout.question,
            "first_answer": rollout.expected_answer,
            "second_answer": answer,
        }
        verdict = await judge.compare(
            judge.prompt,
            values,
            equal=EQUAL,
            not_equal=NOT_EQUAL,
            swap=("first_answer", "second_answer"),
            untrusted=("second_answer",),
            system=SYSTEM,
        )
        if verdict.equal and verdict.swapped:
            return score(1.0, found, "", verdict.evaluations)
        said = "otherwise in the other order" if verdict.equal else "that the answers differ"
        return score(0.0, found, f"{found.reason}; the judge says {said}", verdict.evaluations)

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        """What the library found, and what it and the judge found together."""
        by_library = [{**reply, "reward": reply.get("library_reward") or 0.0} for reply in replies]
        rates = pass_and_majority(by_library, answer="extracted_answer", name="symbolic_accuracy")
        if any(reply.get("judge_evaluations") for reply in replies):
            rates |= pass_and_majority(replies, answer="extracted_answer", name="judge_accuracy")
        return rates


def judge_of(server: MathWithJudge) -> Judge:
    config = server.config
    if not config.judge_model_server.name:
        raise UserError(
            f"{config.name}: should_use_judge is true, and judge_model_server names no model.",
            "Name one, or set should_use_judge: false.",
        )
    return Judge(server, config, Prompt.parse(QUESTION, ("question", "first_answer", "second_answer")))


def score(
    reward: float, found: Found, reason: str, evaluations: list[dict[str, Any]] | None = None
) -> MathWithJudgeScore:
    said = MathWithJudgeScore(
        reward=reward,
        extracted_answer=found.extracted,
        library_reward=float(found.equal),
        judge_evaluations=evaluations,
        reason=reason,
    )
    if found.library_error:
        said.library_error = found.library_error
    return said


app = MathWithJudge.app()
