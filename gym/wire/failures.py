"""A failed attempt as data: its kind, its server, and whether a retry may help. Never a reward of 0."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar, get_args

import orjson

from gym.errors import GymError
from gym.wire.json_text import write_json

P = ParamSpec("P")
R = TypeVar("R")
FailureKind = Literal[
    "model", "agent", "resources", "sandbox", "judge", "timeout", "budget", "row", "lost_session", "cancelled"
]
NO_ROUTE = b"404 page not found\n"  # the router's own reply: it has no route, as before it has read its files
KINDS: frozenset[str] = frozenset(get_args(FailureKind))
STATUS: dict[str, int] = {
    "row": 422,
    "budget": 422,
    "timeout": 504,
    "lost_session": 503,
    "cancelled": 503,
    "model": 502,
}


class RolloutError(GymError):
    """Raised anywhere on a rollout's way; travels as `{"error": {kind, server, message, retryable}}`."""

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        server: str = "",
        retryable: bool | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.server = server
        self.message = message
        self.retryable = kind not in ("row", "budget") if retryable is None else retryable
        self.status = status or STATUS.get(kind, 500)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "server": self.server, "message": self.message, "retryable": self.retryable}

    def to_body(self) -> bytes:
        return write_json({"error": self.to_dict()})


def reading(kind: FailureKind, what: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """For converters of foreign data: a field of an unforeseen type is the sender's failure, not a bug of ours."""

    def decorate(convert: Callable[P, R]) -> Callable[P, R]:
        @wraps(convert)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return convert(*args, **kwargs)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise RolloutError(kind, f"{what} has a field of an unexpected type: {error}") from error

        return guarded

    return decorate


def has_no_route(status: int, body: bytes) -> bool:
    """The router itself has answered: no server behind it has seen the request."""
    return status == 404 and body == NO_ROUTE


def error_from_reply(status: int, body: bytes, *, server: str, kind: FailureKind) -> RolloutError:
    """What a reply of 400 or more means: a peer's own words where it speaks the contract, its status where not."""
    error = _error_of(body)
    if error is not None and error.get("kind") in KINDS:
        message, retryable = str(error.get("message", "")), error.get("retryable")
        known = retryable if isinstance(retryable, bool) else status >= 500
        return RolloutError(
            error["kind"], message, server=str(error.get("server") or server), retryable=known, status=status
        )
    if kind != "model" and has_no_route(status, body):  # a model's server may use the same words for a wrong path
        what = "the router has no route to it: it has not read its files yet, or has lost them"
        return RolloutError(kind, what, server=server, retryable=True, status=503)
    text = body[:2000].decode("utf-8", "replace").strip()
    # 4xx is the row's fault, 5xx the infrastructure's: trainers read it so. 408 and 429 ask to retry later.
    if 400 <= status < 500 and status not in (408, 429):
        fault: FailureKind = "model" if kind == "model" else "row"  # a model's 401 or 404 is not about the row
        return RolloutError(fault, f"answered {status}: {text}", server=server, retryable=False, status=422)
    return RolloutError(kind, f"answered {status}: {text}", server=server, retryable=True)


def _error_of(body: bytes) -> dict[str, Any] | None:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    error = parsed.get("error") if isinstance(parsed, dict) else None
    return error if isinstance(error, dict) else None
