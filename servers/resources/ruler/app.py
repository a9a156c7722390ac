"""Needles in a long context: how many of the strings that were asked for the answer holds."""

from typing import Any

from guesses import is_alone, plain, precision, repeats
from rows import RulerScore, RulerTask

from gym.server import ResourcesConfig, ResourcesServer
from gym.wire.pass_rates import pass_and_majority, pass_and_majority_by

QUESTIONS = "qa"  # subsets whose `outputs` are spellings of one answer; elsewhere all of them are asked for
SPACE_OF_STRICT = 1_000  # characters beside the strings themselves: twice what RULER lets a model generate


class RulerConfig(ResourcesConfig):
    strict: bool = False


class Ruler(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: RulerConfig

    async def verify(self, rollout: RulerTask) -> RulerScore:
        """The share of the strings that the answer holds; for questions, whether it holds any."""
        answer, reason = self.read(rollout)
        held = [self.holds(answer, text.lower()) for text in rollout.outputs]
        share, some = sum(held) / len(held), float(any(held))
        reward = some if rollout.subset.startswith(QUESTIONS) else share
        if self.config.strict and reward:
            reward *= precision(answer, [text.lower() for text in rollout.outputs])
        matches = {"string_match_all_single": share, "string_match_part_single": some}
        matches |= {f"{rollout.subset}_{name}": value for name, value in matches.items()}
        reason = "" if reward == 1.0 else reason or f"{sum(held)} of {len(held)} strings found"
        return RulerScore(reward=reward, reason=reason, **matches)

    def holds(self, answer: str, text: str) -> bool:
        """Strictly as a word of its own: 12 is not in 123."""
        return is_alone(text, answer) if self.config.strict else text in answer

    def read(self, rollout: RulerTask) -> tuple[str, str]:
        """The text to search, and why it is none."""
        answer = rollout.output_text.strip().lower()
        if repeats(answer, rollout):
            return "", "the answer repeats the prompt"
        if self.config.strict and len(answer) > SPACE_OF_STRICT + 2 * sum(map(len, rollout.outputs)):
            return "", "the answer is too long for what was asked"
        return plain(answer) if self.config.strict else answer, ""

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        return pass_and_majority(replies) | pass_and_majority_by("subset", replies)


app = Ruler.app()
