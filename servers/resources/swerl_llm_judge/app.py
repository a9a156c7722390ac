"""The policy judges proposed fixes of an issue and names the right one in `<solution>…</solution>`."""

from typing import Any

from choice import GradingMode, extract_choice

from gym.server import ResourcesConfig, ResourcesServer, Score, VerifyRequest
from gym.wire.failures import RolloutError


class SwerlLlmJudgeConfig(ResourcesConfig):
    dataset_name: str | None = None
    strict: bool = False


class SwerlLlmJudgeTask(VerifyRequest):
    options: list[dict[str, Any]]
    expected_answer: str | list[str]
    grading_mode: GradingMode = "strict"

    @property
    def letters(self) -> frozenset[str]:
        """Of the options: of each the first name, when it is a single letter."""
        names = (next(iter(option), "") for option in self.options)
        return frozenset(name.upper() for name in names if len(name) == 1 and name.isalpha())

    @property
    def golds(self) -> list[str]:
        answers = [self.expected_answer] if isinstance(self.expected_answer, str) else self.expected_answer
        wanted = dict.fromkeys(one.strip().upper() for one in answers)
        return [one for one in wanted if one in self.letters]


class SwerlLlmJudgeScore(Score):
    expected_answer: str | list[str]
    extracted_answer: str | None


class SwerlLlmJudge(ResourcesServer[None]):
    reverify_mode = "stateless"
    answer = "extracted_answer"
    config: SwerlLlmJudgeConfig

    async def verify(self, rollout: SwerlLlmJudgeTask) -> SwerlLlmJudgeScore:
        """1.0 for the letter of a right fix."""
        golds = rollout.golds
        if not golds:
            raise RolloutError("row", "expected_answer: a letter of one of the options is needed")
        chosen = extract_choice(rollout.joined_text, rollout.letters, rollout.grading_mode, only=self.config.strict)
        right = chosen in golds
        return SwerlLlmJudgeScore(
            reward=float(right),
            expected_answer=golds[0] if len(golds) == 1 else golds,
            extracted_answer=chosen,
            reason="" if right else "another fix was chosen" if chosen else "no fix was chosen in <solution>",
        )


app = SwerlLlmJudge.app()
