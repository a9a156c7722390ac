"""The weather of any city, always cold: the smallest environment there is. One tool, and a verifier that agrees."""

from pydantic import BaseModel

from gym.server import ResourcesServer, VerifyRequest, tool


class Forecast(BaseModel):
    city: str
    weather_description: str


class SimpleWeather(ResourcesServer[None]):
    reverify_mode = "stateless"
    reward_floor = 1.0
    reward_floor_reason = "an example of a tool: every rollout is worth 1"

    @tool
    async def get_weather(self, city: str) -> Forecast:
        """Look up the current weather of a city."""
        return Forecast(city=city, weather_description=f"The weather in {city} is cold.")

    async def verify(self, rollout: VerifyRequest) -> float:
        return 1.0


app = SimpleWeather.app()
