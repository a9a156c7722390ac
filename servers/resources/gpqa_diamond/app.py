"""Graduate questions of physics, chemistry and biology with four options: the letter that the answer ends with."""

from typing import Any

from letters import extract_letter, strict_letter
from pydantic import Field

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.choices import Template, choose_by_pattern
from gym.server.config import Settings
from gym.server.patterns import Patterns
from gym.wire.choices import Options
from gym.wire.pass_rates import pass_and_majority


class GpqaConfig(ResourcesConfig):
    strict: bool = False


class GpqaTask(VerifyRequest):
    options: list[dict[str, Any]] = Field(default_factory=list)
    expected_answer: str
    template_metadata: Template | None = None


class GpqaDiamond(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: GpqaConfig

    def __init__(self, config: GpqaConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.strict = config.strict
        self.patterns = Patterns()

    async def verify(self, rollout: GpqaTask) -> dict[str, Any]:
        """1.0 when the letter is the expected one."""
        gold, text = rollout.expected_answer.strip().upper(), rollout.output_text.strip()
        options = Options.of(rollout.options)
        chosen, reason = await choose_by_pattern(self.patterns, rollout.template_metadata, text, options)
        if chosen is None:
            chosen = strict_letter(text, options) if self.strict else extract_letter(text)
            if options.texts and chosen not in options.texts:
                chosen = None
        right = bool(gold) and chosen == gold
        fields = {"reward": float(right), "expected_answer": gold, "extracted_answer": chosen}
        if chosen is None:
            reason = reason or "the answer names no option"
        elif not right:
            reason = reason or f"{chosen} is not the expected option"
        return {**fields, "reason": reason} if reason else fields

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        return pass_and_majority(replies, answer="extracted_answer")

    async def stop(self) -> None:
        await super().stop()
        await self.patterns.close()


app = GpqaDiamond.app()
