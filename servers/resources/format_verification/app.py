"""Formats: the answer must have enough lines of a form, or exactly the markers that were asked for."""

from typing import Any

from pydantic import Field
from reasons import objection, reason_of
from rows import FormatTask, FormatVerificationScore, LineFormat, MarkerFormat

from gym.server import ResourcesServer
from gym.server.worker_pool import WorkersConfig, worker_pool
from gym.server.workers import Workers
from gym.wire.answers import plain_lines
from gym.wire.items import last_user_text


class FormatConfig(WorkersConfig):
    strict: bool = (
        False  # an answer that is empty, all markers or the prompt, and a row that asks for nothing, are worth 0
    )
    cpu_seconds: float = Field(5.0, gt=0)


class FormatVerification(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: FormatConfig
    workers: Workers = worker_pool("matching")

    async def verify(self, rollout: FormatTask) -> FormatVerificationScore:
        """1.0 when the format is kept; what the answer says is not looked at."""
        wanted, text = rollout.verifier, rollout.output_text
        if self.config.strict:
            text = plain_lines(text)
        details = await self.match(text, wanted)
        reason = "" if details["passed"] else reason_of(details)
        if self.config.strict and not reason:
            reason = objection(text, wanted, last_user_text(rollout.responses_create_params.input))
        return FormatVerificationScore(reward=float(not reason), match_details=details, reason=reason)

    async def match(self, text: str, wanted: LineFormat | MarkerFormat) -> dict[str, Any]:
        asked: tuple[Any, ...]
        if isinstance(wanted, LineFormat):
            function, asked = "match_lines", (wanted.verify_regex, wanted.verify_min_matches)
        else:
            function, asked = "match_markers", (wanted.expected_markers, wanted.patterns)
        return await self.workers.judge(function, text, *asked, field="verifier", refusal="BadPattern")


app = FormatVerification.app()
