"""What a row holds, and what its reply says beside the reward."""

from typing import Literal

from gym.server import Score, VerifyRequest


class StructuredTask(VerifyRequest):
    schema_str: str
    schema_type: Literal["json", "yaml", "xml", "toml", "csv"] = "json"
    response_mode: Literal["text", "tool_call"] = "text"
    tool_name: str | None = None
    tool_payload_key: str | None = None


class StructuredOutputsScore(Score):
    error_type: str | None
    error_message: str | None
