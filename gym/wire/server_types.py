"""The three types of servers, as the contract writes them."""

from __future__ import annotations

from typing import Final, Literal

MODELS: Final = "responses_api_models"
RESOURCES: Final = "resources_servers"
AGENTS: Final = "responses_api_agents"
ServerType = Literal["responses_api_models", "resources_servers", "responses_api_agents"]
# What people call them.
KINDS: Final[dict[str, Literal["model", "resources", "agent"]]] = {
    MODELS: "model",
    RESOURCES: "resources",
    AGENTS: "agent",
}
