"""Scheduling by conversation: the calendar that the last answer gives, held against what the user asked for."""

from typing import Any

from pydantic import PrivateAttr, model_validator
from schedule import Wanted, find_events, find_fault, read_wanted

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.config import Settings
from gym.wire.items import Item
from gym.wire.rows import Tolerant

THINK = "<think>"


class ExpectedEvent(Tolerant):
    duration: float
    min_time: str
    max_time: str
    constraint: str | None = None
    _wanted: Wanted = PrivateAttr()

    @model_validator(mode="after")
    def _times_can_be_read(self) -> "ExpectedEvent":
        wanted = self._wanted = read_wanted(self.duration, self.min_time, self.max_time, self.constraint)
        begins = wanted.earliest if wanted.starts is None else wanted.starts
        if begins < wanted.earliest or begins + wanted.duration > wanted.latest:
            raise ValueError("nothing of this duration fits between these times and keeps to the constraint")
        return self


class CalendarConfig(ResourcesConfig):
    strict: bool = False


class CalendarTask(VerifyRequest):
    exp_cal_state: dict[str, ExpectedEvent]


class Calendar(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: CalendarConfig

    def __init__(self, config: CalendarConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.strict = config.strict

    async def verify(self, rollout: CalendarTask) -> dict[str, Any]:
        """1.0 when every event is where it may be and none overlaps another."""
        reason = self.find_fault(last_text(rollout.response.output), rollout.exp_cal_state)
        return {"reward": 0.0, "reason": reason} if reason else {"reward": 1.0}

    def find_fault(self, answer: str, expected: dict[str, ExpectedEvent]) -> str:
        if not answer:
            return "no_answer"
        if THINK in answer:
            return "think_found"
        if not expected:
            return ""  # a turn that changes nothing: whatever is said, is said
        wanted = {key: event._wanted for key, event in expected.items()}
        try:
            return find_fault(find_events(answer), wanted, strict=self.strict)
        except (RecursionError, OverflowError):  # nested as deep as the parser lets, or numbers without end
            return "error_in_grading"


def last_text(output: list[Item]) -> str:
    """The first part of the last item and nothing else: thoughts that were cut off are no answer."""
    content = output[-1].get("content") if output else None
    first = content[0] if isinstance(content, list) and content else None
    text = first.get("text") if isinstance(first, dict) else content
    return text if isinstance(text, str) else ""


app = Calendar.app()
