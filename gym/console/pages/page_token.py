"""Asks for a token before any page or JSON: where pages are served to more than this machine without a router."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gym.console.console_token import CHALLENGES, is_admitted


class TokenMiddleware:
    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_admitted(Request(scope).headers.get("authorization", ""), self._token):
            reply = PlainTextResponse("a token is needed\n", 401)
            for challenge in CHALLENGES:
                reply.headers.append("www-authenticate", challenge)
            await reply(scope, receive, send)
            return
        await self._app(scope, receive, send)
