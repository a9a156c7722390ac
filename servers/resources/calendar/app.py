"""Scheduling by conversation: the calendar that the last answer gives, held against what the user asked for."""

from rows import CalendarTask, ExpectedEvent
from schedule import find_events, find_fault

from gym.server import ResourcesConfig, ResourcesServer, Score
from gym.wire.items import Item

THINK = "<think>"


class CalendarConfig(ResourcesConfig):
    strict: bool = False


class Calendar(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: CalendarConfig

    async def verify(self, rollout: CalendarTask) -> Score:
        """1.0 when every event is where it may be and none overlaps another."""
        reason = self.find_fault(last_text(rollout.response.output), rollout.exp_cal_state)
        return Score(reward=float(not reason), reason=reason)

    def find_fault(self, answer: str, expected: dict[str, ExpectedEvent]) -> str:
        if not answer:
            return "no_answer"
        if THINK in answer:
            return "think_found"
        if not expected:
            return ""  # a turn that changes nothing: whatever is said, is said
        wanted = {key: event._wanted for key, event in expected.items()}
        try:
            return find_fault(find_events(answer), wanted, strict=self.config.strict)
        except (RecursionError, OverflowError):  # nested as deep as the parser lets, or numbers without end
            return "error_in_grading"


def last_text(output: list[Item]) -> str:
    """The first part of the last item and nothing else: thoughts that were cut off are not an answer."""
    content = output[-1].get("content") if output else None
    first = content[0] if isinstance(content, list) and content else None
    text = first.get("text") if isinstance(first, dict) else content
    return text if isinstance(text, str) else ""


app = Calendar.app()
