"""Formats: does the answer have enough lines of a form, or all the markers it was told to use and no other?"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.config import Settings
from gym.server.workers import WorkerRaised, Workers
from gym.wire.answers import plain_lines, repeats_only, says_something
from gym.wire.failures import RolloutError
from gym.wire.items import last_user_text
from gym.wire.pass_rates import pass_and_majority
from gym.wire.rows import Tolerant


class FormatConfig(ResourcesConfig):
    strict: bool = (
        False  # an answer that is empty, all markers or the prompt, and a row that asks for nothing, are worth 0
    )
    worker_count: int = Field(2, ge=1)
    cpu_seconds: float = Field(5.0, gt=0)  # for one answer; more is a failure of kind timeout, never a reward


class LineFormat(Tolerant):
    type: Literal["regex", "inline_prose"]
    verify_regex: list[str] = []
    verify_min_matches: int = Field(1, ge=0)


class MarkerFormat(Tolerant):
    type: Literal["string_match"]
    expected_markers: list[str] = []
    patterns: list[str] = []


class FormatTask(VerifyRequest):
    verifier: Annotated[LineFormat | MarkerFormat, Field(discriminator="type")]


class FormatVerification(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: FormatConfig

    def __init__(self, config: FormatConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        folder = Path(__file__).parent
        self.workers = Workers("matching", count=config.worker_count, timeout=config.cpu_seconds, folder=folder)

    async def verify(self, rollout: FormatTask) -> dict[str, Any]:
        """1.0 when the format is kept; what the answer says is not looked at."""
        wanted, text = rollout.verifier, rollout.output_text
        if self.config.strict:
            text = plain_lines(text)
        details = await self.match(text, wanted)
        reason = "" if details["passed"] else reason_of(details)
        if self.config.strict and not reason:
            reason = objection(text, wanted, last_user_text(rollout.responses_create_params.input))
        fields: dict[str, Any] = {"reward": float(not reason), "match_details": details}
        return {**fields, "reason": reason} if reason else fields

    async def match(self, text: str, wanted: LineFormat | MarkerFormat) -> dict[str, Any]:
        asked: tuple[Any, ...]
        if isinstance(wanted, LineFormat):
            function, asked = "match_lines", (wanted.verify_regex, wanted.verify_min_matches)
        else:
            function, asked = "match_markers", (wanted.expected_markers, wanted.patterns)
        try:
            details: dict[str, Any] = await self.workers.check(
                function, text, *asked, blank=("", *asked), field="verifier"
            )
        except WorkerRaised as error:
            if error.type_name != "BadPattern":
                raise
            raise RolloutError("row", f"verifier.{error.message}") from None
        return details

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        return dict(pass_and_majority(replies))

    async def stop(self) -> None:
        await super().stop()
        await self.workers.close()


def reason_of(details: dict[str, Any]) -> str:
    if "min_matches" in details:
        return f"{details['matching_lines']} lines match, at least {details['min_matches']} should"
    parts = (f"{name}: {', '.join(details[name])}" for name in ("missing", "spurious") if details[name])
    return "; ".join(parts)[:2000]


def objection(text: str, wanted: LineFormat | MarkerFormat, prompt: str) -> str:
    """What strict mode has against an answer that keeps the format."""
    if not says_something(text):
        return "the answer is empty"
    if repeats_only(text, prompt):
        return "the answer is the prompt again"
    if isinstance(wanted, LineFormat):
        asks = bool(wanted.verify_regex) and wanted.verify_min_matches > 0
        return "" if asks else "the row asks for no lines"
    for marker in wanted.expected_markers:
        text = text.replace(marker, " ") if marker else text
    if not says_something(text):
        return "the answer is nothing but markers"
    return "" if wanted.expected_markers or wanted.patterns else "the row asks for no markers"


app = FormatVerification.app()
