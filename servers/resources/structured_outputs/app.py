"""Structured outputs: JSON, YAML, TOML, XML or CSV, as text or as a tool call's arguments, against the row's schema."""

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from pydantic import Field

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.config import Settings
from gym.server.workers import Workers

MAX_MESSAGE = 200


class StructuredConfig(ResourcesConfig):
    xml_coerce_types: bool = True
    strict: bool = False  # closes nested objects too, reads fenced answers and YAML dates, refuses NaN
    worker_count: int = Field(2, ge=1)
    cpu_seconds: float = Field(10.0, gt=0)  # for one answer; more is a failure of kind timeout, never a reward


class StructuredTask(VerifyRequest):
    schema_str: str
    schema_type: Literal["json", "yaml", "xml", "toml", "csv"] = "json"
    response_mode: Literal["text", "tool_call"] = "text"
    tool_name: str | None = None
    tool_payload_key: str | None = None


class NoPayload(Exception):
    """The tool call that should carry the answer is not there; `kind` as replies name it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class StructuredOutputs(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: StructuredConfig

    def __init__(self, config: StructuredConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        folder = Path(__file__).parent
        self.workers = Workers("conforming", count=config.worker_count, timeout=config.cpu_seconds, folder=folder)

    async def verify(self, rollout: StructuredTask) -> dict[str, Any]:
        """1.0 when the answer parses and conforms to the schema, all its properties there and no other."""
        kind, message = await self.judge(rollout)
        if not kind:
            return {"reward": 1.0, "error_type": None, "error_message": None}
        return {"reward": 0.0, "error_type": kind, "error_message": message, "reason": f"{kind}: {message}"}

    async def judge(self, rollout: StructuredTask) -> tuple[str, str]:
        """The kind of error and its message, both empty when there is none."""
        strict = self.config.strict
        if rollout.response_mode == "tool_call":
            try:
                payload = read_payload(rollout)
            except NoPayload as error:
                return error.kind, str(error)
            asked = (rollout.schema_str, strict)
            kind, message = await self.workers.check(
                "conform_payload", payload, *asked, blank=({}, *asked), field="schema_str"
            )
        elif not (text := rollout.output_text).strip():
            return "empty_response", "No assistant response text"
        else:
            given = (rollout.schema_str, rollout.schema_type, self.config.xml_coerce_types, strict)
            kind, message = await self.workers.check(
                "conform_text", text, *given, blank=("", *given), field="schema_str"
            )
        return kind, message

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        rewards: dict[str, list[float]] = defaultdict(list)
        for reply in replies:
            rewards[f"mean/reward_{reply.get('schema_type', 'json')}"].append(float(reply.get("reward") or 0.0))
        return {name: mean(found) for name, found in rewards.items()}

    async def stop(self) -> None:
        await super().stop()
        await self.workers.close()


def read_payload(rollout: StructuredTask) -> Any:
    """The arguments of the one tool call there should be, or what they hold under the row's key."""
    failure = (rollout.response.model_extra or {}).get("error")
    if failure:
        raise NoPayload("api_error", str(failure)[:MAX_MESSAGE])
    calls = rollout.function_calls
    if not calls:
        raise NoPayload("missing_tool_call", "No tool was called")
    if len(calls) > 1:
        raise NoPayload("multiple_tool_calls", f"One tool call was expected, not {len(calls)}")
    name = calls[0].get("name")
    if rollout.tool_name and name != rollout.tool_name:
        raise NoPayload("wrong_tool_name", f"A call of {rollout.tool_name!r} was expected, not of {name!r:.60}")
    arguments = read_arguments(calls[0].get("arguments"))
    if not rollout.tool_payload_key:
        return arguments
    if not isinstance(arguments, dict) or rollout.tool_payload_key not in arguments:
        raise NoPayload("missing_tool_payload_key", f"The arguments have no {rollout.tool_payload_key!r}")
    return arguments[rollout.tool_payload_key]


def read_arguments(arguments: Any) -> Any:
    if isinstance(arguments, dict):
        return arguments
    if not isinstance(arguments, str):
        raise NoPayload("tool_arguments_parse_error", f"arguments should be a text, not {arguments!r:.60}")
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise NoPayload("tool_arguments_parse_error", f"{type(error).__name__}: {str(error)[:MAX_MESSAGE]}") from None


app = StructuredOutputs.app()
