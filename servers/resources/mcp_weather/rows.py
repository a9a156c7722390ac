"""What a row holds, and what its reply says beside the reward."""

from pydantic import BaseModel

from gym.server import Row, Score, VerifyRequest
from gym.wire.rows import Tolerant


class Truth(Tolerant):
    expected_city: str = "Paris"


class WeatherRow(Row):
    verifier_metadata: Truth | None = None


class WeatherTask(VerifyRequest):
    verifier_metadata: Truth | None = None


class Report(BaseModel):
    weather: str


class McpWeatherScore(Score):
    expected_weather: str
    tool_call_seen: bool
    final_response_mentions_weather: bool
