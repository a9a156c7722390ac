"""The trace of a `/run` that asks for one: its model calls, recorded by the model server under an id of its own.

The row asks by `return_trace: true`, or the agent's config does for every row; the reply has it below `trace`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from gym.http.pool import Headers, HttpClient, Reply
from gym.labels import HEADER_CALLS, HEADER_CAPTURE
from gym.wire.failures import RolloutError, error_from_reply
from gym.wire.splice import splice

FIELD: Final = "return_trace"
DROP_SECONDS: Final = 5.0
OWN: Final[Headers] = ((HEADER_CAPTURE.encode(), b"own"),)  # the id is new: no other replica can have it
CALLS: Final = HEADER_CALLS.encode()


class RunTrace:
    """Of one rollout."""

    def __init__(self) -> None:
        self.id = f"run-{secrets.token_hex(16)}"
        self.answered = 0  # model calls that had a reply

    def call_path(self, path: str) -> str:
        return f"/sessions/{self.id}{path}"

    def explain(self, error: RolloutError) -> RolloutError:
        """A server that knows no sessions answers 404 in words of its own."""
        if self.answered or not error.message.startswith("answered 404"):
            return error
        what = f"{FIELD}: {error.server} records no calls; a model server of this SDK does ({error.message})"
        return RolloutError("agent", what, server=error.server, retryable=False)

    async def fetch(self, http: HttpClient, url: str, server: str, seconds: float) -> bytes:
        """The trace from a replica of the model server; a failure where it does not hold every call."""
        if not self.answered:
            return orjson.dumps({"session_id": self.id, "model_server": server, "complete": True, "calls": []})
        try:
            reply = await http.request("GET", f"{url}{self.call_path('/trace')}", timeout=seconds)
        except (OSError, TimeoutError) as error:
            raise RolloutError("lost_session", f"its trace cannot be read: {error}", server=server) from error
        if reply.status >= 400:
            failure = error_from_reply(reply.status, reply.body, server=server, kind="model")
            lost = failure.kind == "lost_session"
            raise RolloutError("lost_session", failure.message, server=server) if lost else failure
        if _count(reply) < self.answered:
            what = f"its trace has {_count(reply)} of {self.answered} model calls: a replica was restarted"
            raise RolloutError("lost_session", what, server=server)
        return reply.body

    async def drop(self, http: HttpClient, url: str) -> None:
        with suppress(OSError, TimeoutError):  # gone, and the trace with it; or its TTL ends it
            await http.request("DELETE", f"{url}{self.call_path('')}", timeout=DROP_SECONDS)


def wants_trace(fields: Mapping[str, Any], default: bool) -> bool:
    asked = fields.get(FIELD)
    if asked is not None and not isinstance(asked, bool):
        raise RolloutError("row", f"{FIELD}: true or false is needed, found {asked!r:.80}")
    return default if asked is None else asked


def add_trace(body: bytes, trace: bytes) -> bytes:
    """The verified rollout with its trace; a field of that name that the row brought is replaced."""
    keys = ("trace",) if b'"trace"' in body else ("reward",)
    return splice(body, {"trace": orjson.Fragment(trace)}, keys=keys)


def _count(reply: Reply) -> int:
    count = reply.header(CALLS) or b""
    return int(count) if count.isdigit() else 0
