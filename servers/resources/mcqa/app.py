"""Multiple-choice questions: reads the chosen letter out of the answer in one of four ways, or by a row's pattern."""

from grading import GradingMode, extract_answer, strict_answer
from rows import McqaScore, McqaTask

from gym.server import ResourcesConfig, ResourcesServer
from gym.server.multiple_choice import choose_by_pattern
from gym.server.patterns import Patterns
from gym.wire.choices import Options


class McqaConfig(ResourcesConfig):
    grading_mode: GradingMode | None = None  # overrides the rows' own
    strict: bool = False  # grades by the letter that was meant, in any form, where it is the only one


class Mcqa(ResourcesServer[None]):
    reverify_mode = "stateless"
    answer = "extracted_answer"
    config: McqaConfig

    async def start(self) -> None:
        self.patterns = self.own(Patterns())

    async def verify(self, rollout: McqaTask) -> McqaScore:
        """1.0 when the chosen letter is the expected one."""
        gold = rollout.expected_answer.strip().upper()
        text = rollout.output_text.strip()
        chosen, reason = await self.choose(rollout, text) if text else (None, "the answer is empty")
        right = bool(gold) and chosen == gold
        if not right:
            reason = reason or ("the answer names no option" if chosen is None else f"{chosen} is not the expected one")
        score = McqaScore(reward=float(right), extracted_answer=chosen, reason=reason)
        if gold != rollout.expected_answer:
            score.expected_answer = gold  # else the echo says it already
        return score

    async def choose(self, rollout: McqaTask, text: str) -> tuple[str | None, str]:
        """The letter, and what a person should know about it."""
        options = Options.of(rollout.options or ())
        chosen, reason = await choose_by_pattern(self.patterns, rollout.template_metadata, text, options)
        if chosen is None:
            mode = self.config.grading_mode or rollout.grading_mode or "strict_single_letter_boxed"
            chosen = (strict_answer if self.config.strict else extract_answer)(text, options, mode)
        return chosen, reason or ("" if options.texts else "the row has no options")


app = Mcqa.app()
