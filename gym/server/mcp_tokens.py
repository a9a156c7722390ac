"""The signed header by which an MCP client names the session of its rollout."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Protocol

from gym.labels import HEADER_MCP_SESSION
from gym.server.own_secrets import OwnSecrets
from gym.server.tools import Tool
from gym.wire.failures import RolloutError

TOKEN_HEADER = "X-NeMo-Gym-Session-Token"  # HEADER_MCP_SESSION as the contract spells it


class ToolServer(Protocol):
    """`ResourcesServer`, as far as MCP needs it."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def mcp_key(self) -> bytes: ...
    @property
    def own_secrets(self) -> OwnSecrets: ...

    async def call_tool(self, tool: Tool, body: bytes, session_id: str) -> tuple[Any, str]: ...


def sign_session(key: bytes, session_id: str) -> str:
    return f"{session_id}.{_signature(key, session_id)}"


def read_token(key: bytes, token: str) -> str:
    """The session that a token stands for; "" without a token."""
    if not token:
        return ""
    session_id, _, signature = token.rpartition(".")
    if not hmac.compare_digest(signature.encode(), _signature(key, session_id).encode()):
        what = f"401: {HEADER_MCP_SESSION} is not a token of this server: its replica went away, or it was made up"
        raise RolloutError("lost_session", what, status=401)
    return session_id


def _signature(key: bytes, session_id: str) -> str:
    return hmac.new(key, session_id.encode(), "sha256").hexdigest()
