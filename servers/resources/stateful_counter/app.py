"""A counter of one's own for each rollout: shows that state is kept by session and that verify can see it."""

from dataclasses import dataclass

from gym.server import ResourcesServer, Row, Score, VerifyRequest, tool
from gym.wire.failures import RolloutError


class CounterRow(Row):
    initial_count: int


class CounterTask(VerifyRequest):
    expected_count: int


@dataclass
class Counter:
    count: int = 0


class StatefulCounter(ResourcesServer[Counter]):
    reverify_mode = "unsupported"  # the reward stands in the session, not in the response
    constant_floor = 0.2
    constant_floor_reason = "one example of five is right as it stands: nothing has to be added"

    async def seed(self, row: CounterRow, state: Counter | None) -> Counter:
        """A session that is seeded again keeps the count that it has."""
        return state or Counter(row.initial_count)

    async def unseeded(self) -> Counter:
        return Counter()

    @tool
    async def increment_counter(self, count: int, state: Counter) -> dict[str, bool]:
        """Add a number to the counter."""
        state.count += count
        return {"success": True}

    @tool
    async def get_counter_value(self, state: Counter) -> dict[str, int]:
        """Read the counter."""
        return {"count": state.count}

    async def verify(self, rollout: CounterTask, state: Counter | None) -> Score:
        """1.0 when this rollout's counter stands where it should."""
        if state is None:
            raise RolloutError("row", "verify needs a session: POST /seed_session first, and send its cookie along")
        right = state.count == rollout.expected_count
        reason = "" if right else f"the counter stands at {state.count}, not at {rollout.expected_count}"
        return Score(reward=float(right), final_count=state.count, reason=reason)


app = StatefulCounter.app()
