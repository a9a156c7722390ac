"""Short answers that a judge compares with the expected one: which part of an answer is shown, and in what order."""

from typing import Any, NamedTuple

from pydantic import Field
from rows import EquivalenceLlmJudgeScore, EquivalenceTask

from gym.server import VerifyRequest
from gym.server.judge import Comparison, Judge, JudgeConfig, judged, not_for_a_judge
from gym.server.patterns import BadPattern, Patterns, SlowPattern
from gym.server.resources import ResourcesServer
from gym.server.workers import AnswerTooCostly
from gym.wire import items
from gym.wire.failures import RolloutError

PLACES = ("question", "expected_answer", "generated_answer")
SWAPPED = ("expected_answer", "generated_answer")
DIFFERS = "the judge says that the answer differs"


class EquivalenceConfig(JudgeConfig):
    judge_system_message: str | None = None
    judge_prompt_template: str | None = None
    judge_prompt_template_fpath: str | None = None  # ours, when neither is given
    judge_equal_label: str = Field("[[A=B]]", min_length=1)
    judge_not_equal_label: str = Field("[[A!=B]]", min_length=1)
    question_extract_regex: str | None = None
    response_extract_regex: str | None = None
    msg_extraction_failure: str = ""  # without effect: an empty answer is worth 0, and no judge is asked about it
    check_twice_swap: bool = False
    reward_if_swap_fails: float = 0.0
    use_per_record_regex: bool = True
    extraction_length_threshold: int | None = 120
    check_full_generation_on_fail: bool = True
    reward_if_full_generation_succeeds: float = 0.5
    strict: bool = False  # an answer that the row's pattern missed is not rescued: it may be a list of guesses


class Reading(NamedTuple):
    """What the judge is shown of an answer; `rows_own`: by the row's own pattern; `long`: all, of a long truth."""

    text: str
    rows_own: bool
    long: bool


class EquivalenceLlmJudge(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: EquivalenceConfig
    judge: Judge = judged("prompt_templates/equivalence_llm_judge.txt", required=PLACES[1:], optional=PLACES[:1])

    async def start(self) -> None:
        self.patterns = self.own(Patterns())

    async def verify(self, rollout: EquivalenceTask) -> EquivalenceLlmJudgeScore:
        """1.0 when the judge finds the two equal (in both orders, if asked to), less for a rescued answer."""
        truth, answer = rollout.truth, last_answer(rollout)
        if reason := not_for_a_judge(answer):
            return EquivalenceLlmJudgeScore(reward=0.0, expected_answer=truth, judge_evaluations=[], reason=reason)
        question = items.last_user_text(rollout.responses_create_params.input)
        if question and (found := await self._search(self.config.question_extract_regex, question, "question_extract")):
            question = found
        reading = await self._read(rollout, truth, answer)
        reward, evaluations, reason = await self._judge(question, truth, answer, reading)
        return EquivalenceLlmJudgeScore(
            reward=reward, expected_answer=truth, judge_evaluations=evaluations, reason=reason
        )

    async def _judge(
        self, question: str, truth: str, answer: str, reading: Reading
    ) -> tuple[float, list[dict[str, Any]], str]:
        config = self.config
        swap = config.check_twice_swap and not reading.long
        values = {"question": question, "expected_answer": truth, "generated_answer": reading.text}
        verdict = await self._compare(values, swap)
        if verdict.equal and verdict.swapped is False:
            return config.reward_if_swap_fails, verdict.evaluations, "the judge said otherwise in the other order"
        if verdict.equal:
            return 1.0, verdict.evaluations, ""
        if config.strict or not (config.check_full_generation_on_fail and reading.rows_own) or reading.long:
            return 0.0, verdict.evaluations, DIFFERS
        second = await self._compare({**values, "generated_answer": answer}, False)
        evaluations = [*verdict.evaluations, *second.evaluations]
        if not second.equal:
            return 0.0, evaluations, DIFFERS
        reward = config.reward_if_full_generation_succeeds
        return reward, evaluations, "equal only when the judge saw the whole answer"

    async def _compare(self, values: dict[str, str], swap: bool) -> Comparison:
        return await self.judge.compare(
            self.judge.prompt,
            values,
            equal=self.config.judge_equal_label,
            not_equal=self.config.judge_not_equal_label,
            swap=SWAPPED if swap else None,
            system=self.config.judge_system_message or None,
        )

    async def _read(self, rollout: EquivalenceTask, truth: str, answer: str) -> Reading:
        """A row's own pattern comes first; where the truth is long, the whole answer is shown instead."""
        config = self.config
        own = rollout.template_metadata.output_regex if rollout.template_metadata else None
        if not (own and config.use_per_record_regex):
            found = await self._search(config.response_extract_regex, answer, "response_extract")
            return Reading(found or answer, False, False)
        threshold = config.extraction_length_threshold
        if threshold is not None and len(truth) > threshold:
            return Reading(answer, True, True)
        found = await self._search(own, answer, "template_metadata.output")
        return Reading(found or answer, True, False)

    async def _search(self, pattern: str | None, text: str, name: str) -> str | None:
        if not pattern:
            return None
        try:
            return await self.patterns.last_text(pattern, text)
        except BadPattern:
            return None  # an invalid pattern finds nothing
        except SlowPattern as error:
            if name == "question_extract":
                raise RolloutError("row", f"{name}_regex: {error}") from None
            raise AnswerTooCostly(f"{name}_regex: {error}") from None


def last_answer(rollout: VerifyRequest) -> str:
    """The last message of the assistant, its parts on lines of their own."""
    said = [one for one in rollout.response.output if items.is_message(one)]
    return items.item_text(said[-1], "\n").strip() if said else ""


app = EquivalenceLlmJudge.app()
