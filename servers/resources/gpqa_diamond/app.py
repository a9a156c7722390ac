"""Graduate questions of physics, chemistry and biology with four options: the letter that the answer ends with."""

from typing import Any

from letters import extract_letter, strict_letter
from pydantic import Field

from gym.server import ResourcesConfig, ResourcesServer, Score, VerifyRequest
from gym.server.multiple_choice import Template, choose_by_pattern
from gym.server.patterns import Patterns
from gym.wire.choices import Options


class GpqaConfig(ResourcesConfig):
    strict: bool = False


class GpqaTask(VerifyRequest):
    options: list[dict[str, Any]] = Field(default_factory=list)
    expected_answer: str
    template_metadata: Template | None = None


class GpqaDiamondScore(Score):
    expected_answer: str
    extracted_answer: str | None


class GpqaDiamond(ResourcesServer[None]):
    reverify_mode = "stateless"
    answer = "extracted_answer"
    config: GpqaConfig

    async def start(self) -> None:
        self.patterns = self.own(Patterns())

    async def verify(self, rollout: GpqaTask) -> GpqaDiamondScore:
        """1.0 when the letter is the expected one."""
        gold, text = rollout.expected_answer.strip().upper(), rollout.output_text.strip()
        options = Options.of(rollout.options)
        chosen, reason = await choose_by_pattern(self.patterns, rollout.template_metadata, text, options)
        if chosen is None:
            chosen = strict_letter(text, options) if self.config.strict else extract_letter(text)
            if options.texts and chosen not in options.texts:
                chosen = None
        right = bool(gold) and chosen == gold
        if chosen is None:
            reason = reason or "the answer names no option"
        elif not right:
            reason = reason or f"{chosen} is not the expected option"
        return GpqaDiamondScore(reward=float(right), expected_answer=gold, extracted_answer=chosen, reason=reason)


app = GpqaDiamond.app()
