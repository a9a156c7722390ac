"""Multiple-choice questions: reads the chosen letter out of the answer in one of four ways, or by a row's pattern."""

from typing import Any

from grading import GradingMode, Options, extract_answer, match_to_answer
from patterns import BadPattern, Patterns, SlowPattern
from pydantic import Field

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.config import Settings
from gym.wire.failures import RolloutError
from gym.wire.pass_rates import pass_and_majority
from gym.wire.rows import Tolerant


class McqaConfig(ResourcesConfig):
    grading_mode: GradingMode | None = None  # overrides the rows' own


class Template(Tolerant):
    output_regex: str | list[str] | None = None


class McqaTask(VerifyRequest):
    options: list[dict[str, Any]] = Field(default_factory=list)
    expected_answer: str
    grading_mode: GradingMode | None = None
    template_metadata: Template | None = None


class Mcqa(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: McqaConfig

    def __init__(self, config: McqaConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.mode = config.grading_mode
        self.patterns = Patterns()

    async def verify(self, rollout: McqaTask) -> dict[str, Any]:
        """1.0 when the chosen letter is the expected one."""
        gold = rollout.expected_answer.strip().upper()
        text = rollout.output_text.strip()
        chosen, reason = await self.choose(rollout, text) if text else (None, "the answer is empty")
        fields: dict[str, Any] = {"reward": float(bool(gold) and chosen == gold), "extracted_answer": chosen}
        if gold != rollout.expected_answer:
            fields["expected_answer"] = gold  # else the echo says it already
        return {**fields, "reason": reason} if reason else fields

    async def choose(self, rollout: McqaTask, text: str) -> tuple[str | None, str]:
        """The letter, and what a person should know about it."""
        options = Options.of(rollout.options)
        chosen, reason = await self.choose_by_pattern(rollout.template_metadata, text, options)
        if chosen is None:
            chosen = extract_answer(text, options, self.mode or rollout.grading_mode or "strict_single_letter_boxed")
        return chosen, reason or ("" if options.texts else "the row has no options")

    async def choose_by_pattern(self, template: Template | None, text: str, options: Options) -> tuple[str | None, str]:
        given = template.output_regex if template else None
        reason = ""
        for pattern in [given] if isinstance(given, str) else given or ():
            try:
                groups = await self.patterns.last_match(pattern, text)
            except BadPattern as error:
                reason = f"template_metadata.output_regex: {pattern!r} is no pattern: {error}"
            except SlowPattern as error:
                raise RolloutError("row", f"template_metadata.output_regex: {pattern!r} {error}") from None
            else:
                if groups is not None and (chosen := match_to_answer(groups, options)):
                    return chosen, ""
        return None, reason

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        return pass_and_majority(replies, answer="extracted_answer")

    async def stop(self) -> None:
        await super().stop()
        await self.patterns.close()


app = Mcqa.app()
