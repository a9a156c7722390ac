"""One tool call, scored on three things apart: is it the right call, are its arguments valid, was nothing else said."""

from typing import Any

from rows import Forecast, MultiRewardTask, SingleToolCallMultirewardScore
from scoring import Call, read_calls, required_of, score, why_invalid

from gym.server import ResourcesConfig, ResourcesServer, tool
from gym.wire.calls import refuse_unoffered
from gym.wire.failures import RolloutError
from gym.wire.pass_rates import pass_and_majority

COMPONENTS = ("correctness", "schema_valid", "format")


class MultiRewardConfig(ResourcesConfig):
    strict: bool = False


class SingleToolCallMultireward(ResourcesServer[None]):
    reverify_mode = "stateless"
    reward_floor = 2.0
    reward_floor_reason = "a wrong call in good form is worth its form"
    config: MultiRewardConfig

    @tool
    async def get_weather(self, city: str) -> Forecast:
        """Look up the current weather of a city."""
        return Forecast(city=city, weather_description=f"The weather in {city} is mild.")

    async def verify(self, rollout: MultiRewardTask) -> SingleToolCallMultirewardScore:
        """The sum of three rewards of 1.0 each."""
        calls = read_calls(rollout.response.output)
        expected = Call(rollout.expected_call.name, rollout.expected_call.arguments, valid=True)
        tools = rollout.responses_create_params.tools
        offered = required_of(tools)
        refuse_unoffered([expected.name], tools, field="expected_call")
        if self.config.strict and offered and (unfit := why_invalid([expected], offered, strict=True)):
            raise RolloutError("row", f"expected_call: no call is right and valid: {unfit}")
        scores, reason = score(rollout.response.output, calls, expected, offered, strict=self.config.strict)
        return SingleToolCallMultirewardScore(
            reward=sum(scores.values()),
            reward_components=scores,
            predicted_calls=[{"name": call.name, "arguments": call.arguments} for call in calls],
            reason=reason,
            **scores,
        )

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        """pass@k of each component by itself: where an agent fails is what a single sum would hide."""
        rates: dict[str, Any] = {}
        for name in COMPONENTS:
            scored = [{**reply, "reward": reply.get(name, 0.0)} for reply in replies]
            rates |= pass_and_majority(scored, name=name)
        return rates


app = SingleToolCallMultireward.app()
