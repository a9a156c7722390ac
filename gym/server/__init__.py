"""The SDK that server images install: resources servers, agents and models as plain classes behind HTTP."""

from gym.server.agent import Agent, AgentConfig, RunRow
from gym.server.base import Route, Server, ServerApp
from gym.server.config import Reference, ServerConfig
from gym.server.resources import ResourcesConfig, ResourcesServer
from gym.server.rollout import Rollout
from gym.server.tools import tool

__all__ = [
    "Agent",
    "AgentConfig",
    "Reference",
    "ResourcesConfig",
    "ResourcesServer",
    "Rollout",
    "Route",
    "RunRow",
    "Server",
    "ServerApp",
    "ServerConfig",
    "tool",
]
