"""Sunny weather over MCP: the tool must be called in this very session, and the answer must repeat what it said."""

from rows import McpWeatherScore, Report, Truth, WeatherRow, WeatherTask
from weather import Calls, answer_text, report

from gym.server import ResourcesConfig, ResourcesServer, tool


class McpWeatherConfig(ResourcesConfig):
    expose_tools_over_mcp: bool = True


class McpWeather(ResourcesServer[Calls]):
    reverify_mode = "unsupported"  # whether the tool was called stands in the session, not in the response
    config: McpWeatherConfig

    async def seed(self, row: WeatherRow) -> Calls:
        return Calls()

    async def unseeded(self) -> Calls:
        return Calls()

    @tool
    async def get_weather(self, city: str, state: Calls) -> Report:
        """Get the weather report of a city."""
        state.cities.append(city)
        return Report(weather=report(city))

    async def verify(self, rollout: WeatherTask, state: Calls | None) -> McpWeatherScore:
        """1.0 when the tool was called for the expected city and the answer holds its report."""
        city = (rollout.verifier_metadata or Truth()).expected_city
        called = state is not None and any(one.casefold() == city.casefold() for one in state.cities)
        mentioned = report(city).casefold() in answer_text(rollout.response.output).casefold()
        reason = ""
        if state is None:
            reason = "no session: verify came without the cookie of seed_session"
        elif not (called and mentioned):
            reason = "the answer does not hold the report" if called else f"no call for {city!r}"
        return McpWeatherScore(
            reward=float(called and mentioned),
            expected_weather=report(city),
            tool_call_seen=called,
            final_response_mentions_weather=mentioned,
            reason=reason,
        )


app = McpWeather.app()
