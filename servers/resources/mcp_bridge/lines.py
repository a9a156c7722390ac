"""What every connection to an MCP server can do, however it is reached."""

from __future__ import annotations

from typing import Any, Protocol

Message = dict[str, Any]
CLIENT = {"name": "compose-gym", "version": "1"}


class LineBroken(Exception):
    """The server cannot be reached any more: it ended, closed its output, or forgot the session."""


class LineLate(Exception):
    """No reply within the time."""


class Line(Protocol):
    version: str  # of the protocol, once it was agreed on

    async def ask(self, message: Message, seconds: float) -> Message:
        """The reply to a request, a result or an error; LineBroken or LineLate where there is none."""

    async def tell(self, message: Message) -> None:
        """Sends a notification."""

    async def aclose(self) -> None:
        """Ends the session, and with it the process that belongs to it alone."""
