"""The same tools over MCP (streamable HTTP at `/mcp`), for agents that speak it. Needs the extra `mcp`.

A rollout's session travels in a signed header that `/seed_session` hands out, because MCP clients keep no cookies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

if TYPE_CHECKING:
    from gym.server.resources import ResourcesServer


def advert(server: ResourcesServer[Any], session_id: str) -> dict[str, Any]:
    """What `/seed_session` says about MCP."""
    raise NotImplementedError


def mount(app: FastAPI, server: ResourcesServer[Any]) -> None:
    raise NotImplementedError
