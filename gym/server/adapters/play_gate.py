"""The policy, and the environment's tools over MCP, at a URL of one play, for as long as the play lasts.

What fails on the way to them ends the play; what the play itself does wrong is its answer.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import uvicorn

from gym.server.adapters.model_gate import LONGEST, NOT_AGAIN, ModelGate, refusal
from gym.server.adapters.play_mcp import answer_mcp
from gym.server.adapters.play_tools import PlayEnded, PlayLimits, PlayTool
from gym.server.asgi import Answer, Receive, Scope, Send, send_answer
from gym.server.prompt_server import PromptServer
from gym.server.rollout_client import RolloutClient
from gym.wire.failures import RolloutError


class PlayGate(ModelGate):
    """Of one play."""

    failure_headers: ClassVar = NOT_AGAIN

    def __init__(self, rollout: RolloutClient, params: Mapping[str, Any], limits: PlayLimits) -> None:
        super().__init__(rollout, params, limits)
        self.tools: Sequence[PlayTool] = ()
        self._began = time.monotonic()

    def own_seconds(self) -> float:
        """How long the play has run, without the time in which a model or a tool was at work for it."""
        return time.monotonic() - self._began - self.clock.seconds()

    async def call_tool(self, name: str, arguments: str, call: Any) -> str:
        """`call` makes it. What fails on the way ends the play."""
        if self.is_closed or not self.limits.take_call():
            raise PlayEnded(self.why())
        task = asyncio.current_task()
        assert task is not None
        self.track(task)  # a thread that is left behind does not take its call along
        try:
            with self.clock.waiting():
                text: str = await call(name, arguments)
        except RolloutError as error:
            self.limits.fail(error)
            raise
        return text

    def note_failure(self, body: bytes, error: RolloutError) -> None:
        self.limits.fail(error)

    async def answer_other(self, method: str, path: str, body: bytes) -> Answer:
        if path != "/mcp":
            return refusal(404, f"there is no {method} {path} here; there are {', '.join(LONGEST)} and /mcp")
        if method != "POST":
            return refusal(405, "this MCP server answers POST alone: it keeps no stream open")
        try:
            return await answer_mcp(body, self.tools)
        except RolloutError as error:
            return Answer(error.to_body(), error.status)
        except PlayEnded as error:
            return refusal(403, str(error))


class PlayGates:
    """One listener, on loopback, for all plays of a server; each has a path of its own that cannot be guessed."""

    def __init__(self) -> None:
        self.host = "127.0.0.1"  # where it listens; before the first play another address of this machine can be set
        self._gates: dict[str, PlayGate] = {}
        self._server: uvicorn.Server | None = None
        self._listener: socket.socket | None = None
        self._starting = asyncio.Lock()

    async def open(self, gate: PlayGate) -> str:
        """The URL of a play, without `/v1`."""
        async with self._starting:
            if self._listener is None:
                await self._listen()
        assert self._listener is not None
        place = secrets.token_hex(16)
        self._gates[place] = gate
        host, port, *_ = self._listener.getsockname()
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/{place}"

    async def close(self, url: str) -> None:
        gate = self._gates.pop(url.rpartition("/")[2], None)
        if gate is not None:
            await gate.aclose()

    async def aclose(self) -> None:
        if self._server is not None and self._listener is not None:
            await self._server.shutdown(sockets=[self._listener])
            self._listener.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        place, slash, path = scope["path"][1:].partition("/")
        gate = self._gates.get(place)
        if gate is None:
            await send_answer(send, refusal(403, "the rollout of this URL has ended"))
            return
        await gate.serve(slash + path, scope, receive, send)

    async def _listen(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind((self.host, 0))
        listener.listen(256)
        usual: dict[str, Any] = {"http": "httptools", "ws": "none", "lifespan": "off", "log_config": None}
        config = uvicorn.Config(self, interface="asgi3", log_level="warning", access_log=False, **usual)
        config.timeout_graceful_shutdown = 1
        config.timeout_keep_alive = 75
        server = PromptServer(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[listener])
        self._server, self._listener = server, listener
