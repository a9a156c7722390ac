"""Structured outputs: JSON, YAML, TOML, XML or CSV, as text or as a tool call's arguments, against the row's schema."""

from collections import defaultdict
from statistics import mean
from typing import Any

from payload import NoPayload, read_payload
from rows import StructuredOutputsScore, StructuredTask

from gym.server import ResourcesServer
from gym.server.worker_pool import WorkersConfig, worker_pool
from gym.server.workers import Workers


class StructuredConfig(WorkersConfig):
    xml_coerce_types: bool = True
    strict: bool = False  # closes nested objects too, reads fenced answers and YAML dates, refuses NaN


class StructuredOutputs(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: StructuredConfig
    workers: Workers = worker_pool("conforming")

    async def verify(self, rollout: StructuredTask) -> StructuredOutputsScore:
        """1.0 when the answer parses and conforms to the schema, all its properties there and no other."""
        kind, message = await self.judge(rollout)
        if not kind:
            return StructuredOutputsScore(reward=1.0, error_type=None, error_message=None)
        return StructuredOutputsScore(reward=0.0, error_type=kind, error_message=message, reason=f"{kind}: {message}")

    async def judge(self, rollout: StructuredTask) -> tuple[str, str]:
        """The kind of error and its message, both empty when there is none."""
        schema, strict, answer = rollout.schema_str, self.config.strict, rollout.output_text
        if rollout.response_mode == "tool_call":
            try:
                payload = read_payload(rollout, rollout.tool_name, rollout.tool_payload_key)
            except NoPayload as error:
                return error.kind, str(error)
            found = await self.workers.judge("conform_payload", payload, schema, strict, blank={}, field="schema_str")
        elif not answer.strip():
            return "empty_response", "No assistant response text"
        else:
            asked = (schema, rollout.schema_type, self.config.xml_coerce_types, strict)
            found = await self.workers.judge("conform_text", answer, *asked, field="schema_str")
        return found[0], found[1]

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        rewards: dict[str, list[float]] = defaultdict(list)
        for reply in replies:
            rewards[f"mean/reward_{reply.get('schema_type', 'json')}"].append(float(reply.get("reward") or 0.0))
        return {name: mean(found) for name, found in rewards.items()}


app = StructuredOutputs.app()
