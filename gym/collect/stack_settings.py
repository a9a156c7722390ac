"""What the instances of a stack are set to, as its console tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from gym.collect.targets import Targets


@dataclass(frozen=True, slots=True)
class StackSettings:
    """By instance: its fields, secrets masked, and digests of what else it is made of. Empty for an older stack."""

    instances: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    telemetry: Mapping[str, Any] = field(default_factory=dict)  # the stack's block of that name, as seen from outside

    def fields(self, name: str) -> Mapping[str, Any]:
        found = self.instances.get(name, {}).get("fields")
        return found if isinstance(found, dict) else {}

    def resources_of(self, agent: str) -> str:
        """The resources server that an agent names."""
        named = self.fields(agent).get("resources_server")
        return str(named.get("name") or "") if isinstance(named, dict) else ""


async def read_settings(targets: Targets) -> StackSettings:
    reply = await targets.ask_console("/settings")
    try:
        answer = orjson.loads(reply.body) if reply and reply.status == 200 else {"instances": {}}
        found, telemetry = answer["instances"], answer.get("telemetry")
        instances = {str(name): dict(one) for name, one in found.items()}
        return StackSettings(instances, telemetry if isinstance(telemetry, dict) else {})
    except (ValueError, KeyError, TypeError, AttributeError):
        return StackSettings()
