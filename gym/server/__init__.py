"""The SDK that server images install: resources servers, agents and models as plain classes behind HTTP."""

from typing import TYPE_CHECKING

from gym.lazy import on_first_use

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

# The broker and the console serve without agents, models and verifiers.
__getattr__ = on_first_use(__name__)

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
