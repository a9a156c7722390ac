"""Short answers: one is read out of the text in one of four ways and compared with the expected one by its meaning."""

from typing import Annotated, Any

from extraction import ExtractionMode, extract_answer, strict_answer
from matching import score
from pydantic import StringConstraints

from gym.server import ResourcesConfig, ResourcesServer, Score, VerifyRequest
from gym.server.slots import unwrapped


class StringMatchConfig(ResourcesConfig):
    strict: bool = False


class StringMatchTask(VerifyRequest):
    expected_answer: Annotated[str, StringConstraints(pattern=r"\S", max_length=20_000)]
    extraction_mode: ExtractionMode = "final_answer"
    case_sensitive: bool = False
    metadata: dict[str, Any] | None = None


class StringMatchScore(Score):
    extracted_answer: str | None


class StringMatch(ResourcesServer[None]):
    reverify_mode = "stateless"
    answer = "extracted_answer"
    config: StringMatchConfig

    async def verify(self, rollout: StringMatchTask) -> StringMatchScore:
        """1.0 when the extracted answer is the expected one, 0.98 when it is a number that is nearly it."""
        answer = (strict_answer if self.config.strict else extract_answer)(rollout.joined_text, rollout.extraction_mode)
        if answer is None:
            reason = f"no answer in the form {rollout.extraction_mode!r}"
            return StringMatchScore(reward=0.0, extracted_answer=None, reason=reason)
        forms = (answer, unwrapped(answer)) if self.config.strict else (answer,)
        wanted, exact = rollout.expected_answer, rollout.case_sensitive
        reward = max(
            score(form, wanted, case_sensitive=exact, strict=self.config.strict) for form in dict.fromkeys(forms)
        )
        reason = "" if reward == 1.0 else "the number is not exact" if reward else "the answer is another one"
        return StringMatchScore(reward=reward, extracted_answer=answer, reason=reason)


app = StringMatch.app()
