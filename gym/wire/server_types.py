"""The three types of servers, as the contract writes them."""

from __future__ import annotations

from typing import Final, Literal

ServerType = Literal["responses_api_models", "resources_servers", "responses_api_agents"]
# What people call them.
KINDS: Final[dict[str, str]] = {
    "responses_api_models": "model",
    "resources_servers": "resources",
    "responses_api_agents": "agent",
}
