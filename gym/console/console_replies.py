"""Replies of the console that several of its routes give, and how it reads a small body."""

from __future__ import annotations

import orjson
from starlette.requests import Request
from starlette.responses import Response

from gym import labels
from gym.console.console_token import CHALLENGES
from gym.console.pages.shell import NO_STORE
from gym.errors import GymError, InfraError, UserError
from gym.wire.failures import RolloutError


def asks_for_token() -> Response:
    body = {
        "error": "this stack asks for its token",
        "how": f"send `Authorization: Bearer $GYM_TOKEN`, or set {labels.ENV_TOKEN} for gym",
    }
    refusal = Response(orjson.dumps(body), 401, NO_STORE, "application/json")
    for challenge in CHALLENGES:
        refusal.headers.append("www-authenticate", challenge)
    return refusal


async def read_small(request: Request, max_bytes: int) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise UserError(f"the body is larger than {max_bytes} bytes")
    return body


def refusal_reply(error: GymError) -> Response:
    """422 for what is wrong with the question, 503 for what is wrong here."""
    status = 503 if isinstance(error, InfraError) else 422
    return Response(error_body(error), status, NO_STORE, "application/json")


def error_body(error: GymError) -> bytes:
    """Every refusal in the words of the failure contract."""
    if isinstance(error, RolloutError):
        return error.to_body()
    fault = isinstance(error, UserError)
    return RolloutError("row" if fault else "agent", str(error), retryable=not fault).to_body()
