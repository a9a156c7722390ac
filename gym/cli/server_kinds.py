"""What users call the types of servers."""

from __future__ import annotations

from typing import Final

KINDS: Final = {
    "responses_api_models": "model",
    "resources_servers": "resources",
    "responses_api_agents": "agent",
}
