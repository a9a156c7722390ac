"""The SDK that server images install: resources servers, agents and models as plain classes behind HTTP."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gym.errors import Problem
    from gym.server.agent import Agent, AgentConfig, RunRow
    from gym.server.base import Route, Server, ServerApp
    from gym.server.config import Reference, ServerConfig
    from gym.server.model import Model, ModelConfig, ProviderConfig
    from gym.server.resources import ResourcesConfig, ResourcesServer
    from gym.server.rollout_client import RolloutClient
    from gym.server.score import Score
    from gym.server.tolerated import Tolerated
    from gym.server.tools import tool
    from gym.wire.rows import MultiRewardResponse, Row, VerifyRequest, VerifyResponse

# Name -> its module, imported at its first use: the broker and the console serve without agents, models and verifiers.
_HOMES = {
    **dict.fromkeys(("Agent", "AgentConfig", "RunRow"), "gym.server.agent"),
    **dict.fromkeys(("Route", "Server", "ServerApp"), "gym.server.base"),
    **dict.fromkeys(("Reference", "ServerConfig"), "gym.server.config"),
    **dict.fromkeys(("Model", "ModelConfig", "ProviderConfig"), "gym.server.model"),
    **dict.fromkeys(("ResourcesConfig", "ResourcesServer"), "gym.server.resources"),
    **dict.fromkeys(("MultiRewardResponse", "Row", "VerifyRequest", "VerifyResponse"), "gym.wire.rows"),
    "Problem": "gym.errors",
    "RolloutClient": "gym.server.rollout_client",
    "Score": "gym.server.score",
    "Tolerated": "gym.server.tolerated",
    "tool": "gym.server.tools",
}

__all__ = [
    "Agent",
    "AgentConfig",
    "Model",
    "ModelConfig",
    "MultiRewardResponse",
    "Problem",
    "ProviderConfig",
    "Reference",
    "ResourcesConfig",
    "ResourcesServer",
    "RolloutClient",
    "Route",
    "Row",
    "RunRow",
    "Score",
    "Server",
    "ServerApp",
    "ServerConfig",
    "Tolerated",
    "VerifyRequest",
    "VerifyResponse",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(_HOMES[name]), name)
    return found
