"""A server that gives bodies back and does nothing else: what a hop costs that only moves bytes."""

from __future__ import annotations

from gym.server import ResourcesServer, VerifyRequest
from gym.server.asgi import Answer, Call, Handler


class Echo(ResourcesServer[None]):
    def find_tool(self, path: str) -> Handler | None:
        return _echo if path == "/echo" else None

    async def verify(self, rollout: VerifyRequest) -> float:
        return 0.0


async def _echo(call: Call) -> Answer:
    return Answer(call.body)


app = Echo.app()
