"""The three types of servers, as the contract writes them."""

from __future__ import annotations

from typing import Literal

ServerType = Literal["responses_api_models", "resources_servers", "responses_api_agents"]
