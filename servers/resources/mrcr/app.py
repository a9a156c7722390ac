"""Recall from a long conversation: one of several like replies, word for word, behind a code from the question."""

from typing import Any

from rows import MrcrScore, MrcrTask

from gym.server import ResourcesConfig, ResourcesServer, Tolerated
from gym.server.worker_pool import worker_pool
from gym.server.workers import Workers
from gym.wire.pass_rates import pass_and_majority, pass_and_majority_by

FAR_TOO_LONG = 50  # times the expected text: such an answer could not be 4 per cent like it

LIKENESS = (
    "every character beside the text that was asked for costs its share of the likeness, and no word costs it all"
)
LONGER = ("all options", "right then wrong", "both options", "denial", "retraction")
ENOUGH = 0.5  # what strict asks of a likeness before it is worth anything: any English is 0.2 to 0.4 like any other


class MrcrConfig(ResourcesConfig):
    strict: bool = False


class Mrcr(ResourcesServer[None]):
    reverify_mode = "stateless"
    tolerates = tuple(Tolerated(change, LIKENESS, 0.98) for change in LONGER)
    config: MrcrConfig
    workers: Workers = worker_pool("likeness", cpu_seconds=20.0)

    async def verify(self, rollout: MrcrTask) -> MrcrScore:
        """How alike the answer and the expected text are behind the code; nothing without the code."""
        code, answer = rollout.random_string_to_prepend, rollout.output_text.strip()
        matched = answer.startswith(code)
        ratio, reason = 0.0, f"the answer does not begin with {code[:80]!r}"
        if matched:
            ratio, reason = await self.compare(answer.removeprefix(code), rollout.expected_answer.removeprefix(code))
        reason = "" if ratio == 1.0 else reason
        return MrcrScore(reward=ratio, prefix_matched=matched, seq_match_ratio=ratio, reason=reason)

    async def compare(self, answer: str, expected: str) -> tuple[float, str]:
        if self.config.strict:
            answer, expected = (text.replace("\r\n", "\n").strip() for text in (answer, expected))
        if not answer.strip():
            return 0.0, "nothing stands behind the code"
        if len(answer) > FAR_TOO_LONG * max(len(expected), 1):
            return 0.0, "the answer is far longer than the expected text"
        if answer == expected:
            return 1.0, ""
        ratio = float(await self.workers.call("ratio", answer, expected))
        if self.config.strict and ratio < ENOUGH:
            return 0.0, f"the answer is {ratio:.2f} like the expected text, and strict asks for {ENOUGH:g}"
        return ratio, f"the answer is {ratio:.2f} like the expected text"

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        return pass_and_majority(replies) | pass_and_majority_by("n_needles", replies)


app = Mrcr.app()
