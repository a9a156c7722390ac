"""Requests of a person to the broker: HTTP over one connection, each failure one paragraph."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import orjson
from pydantic import TypeAdapter

from gym.cli.sandbox.broker_connection import BrokerAddress, connect
from gym.errors import InfraError, UserError
from gym.wire.failures import error_from_reply
from gym.wire.sandbox import SandboxInfo

INFOS: Final = TypeAdapter(list[SandboxInfo])
SECONDS: Final = 60.0


def list_sandboxes(broker: BrokerAddress) -> list[SandboxInfo]:
    reply = orjson.loads(_call(broker, "GET", "/sandboxes"))
    return INFOS.validate_python(reply["sandboxes"] if isinstance(reply, dict) else reply)


def remove_sandbox(broker: BrokerAddress, sandbox: str) -> None:
    _call(broker, "DELETE", f"/sandboxes/{quote(sandbox, safe='')}")


def find_sandbox(broker: BrokerAddress, given: str) -> str:
    """The whole id of a sandbox that is named by the beginning of its id."""
    ids = [one.id for one in list_sandboxes(broker)]
    found = [one for one in ids if one == given] or [one for one in ids if one.startswith(given)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"There is no sandbox {given}.", "gym sandbox ls shows those there are.")
    raise UserError(f"{given} is the beginning of {len(found)} ids: {', '.join(found[:5])}.", "Give more of it.")


def stream_exec(broker: BrokerAddress, sandbox: str, request: dict[str, Any], stdin: bytes) -> Iterator[dict[str, Any]]:
    """The lines of a streamed command, the last of them with its result."""
    body = orjson.dumps({**request, "stdin": {"base64": base64.b64encode(stdin).decode()}, "stream": True})
    with connect(broker) as connected:
        reply = _send(_Connection(connected), broker, "POST", f"/sandboxes/{quote(sandbox, safe='')}/exec", body)
        yield from _lines(reply)


def follow_builds(broker: BrokerAddress) -> Iterator[dict[str, Any]]:
    """The lines of what is being built, until nothing is."""
    with connect(broker) as connected:
        yield from _lines(_send(_Connection(connected), broker, "GET", "/images/coming", b""))


def _lines(reply: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    while text := reply.readline():
        if text.strip():
            yield orjson.loads(text)


class _Connection(http.client.HTTPConnection):
    """Over a connected that is there already."""

    def __init__(self, connected: Any) -> None:
        super().__init__("localhost")  # the broker is asked over a connected of its own machine
        self.sock = connected

    def connect(self) -> None:
        raise ConnectionError("the broker closed the connected")


def _call(broker: BrokerAddress, method: str, path: str, body: bytes = b"") -> bytes:
    with connect(broker) as connected:
        connected.settimeout(SECONDS)
        return _send(_Connection(connected), broker, method, path, body).read()


def _send(
    connection: _Connection, broker: BrokerAddress, method: str, path: str, body: bytes
) -> http.client.HTTPResponse:
    """A reply below 400."""
    headers = {"authorization": f"Bearer {broker.token}", "content-type": "application/json"}
    try:
        connection.request(method, path, body or None, headers)
        reply = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        raise InfraError(f"The sandbox broker did not answer: {error}", "gym ps; gym logs sandbox") from error
    if reply.status >= 400:
        raise error_from_reply(reply.status, reply.read(), server="sandbox", kind="sandbox")
    return reply
