"""What a person may ask the broker: plain HTTP over a channel, its failures shown as one paragraph."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import orjson
from pydantic import TypeAdapter

from gym.cli.sandbox.broker_channel import BrokerAccess, connect
from gym.errors import InfraError, UserError
from gym.wire.failures import error_from_reply
from gym.wire.sandbox import SandboxInfo

INFOS: Final = TypeAdapter(list[SandboxInfo])
SECONDS: Final = 60.0


def list_sandboxes(broker: BrokerAccess) -> list[SandboxInfo]:
    reply = orjson.loads(_call(broker, "GET", "/sandboxes"))
    return INFOS.validate_python(reply["sandboxes"] if isinstance(reply, dict) else reply)


def remove_sandbox(broker: BrokerAccess, sandbox: str) -> None:
    _call(broker, "DELETE", f"/sandboxes/{quote(sandbox, safe='')}")


def find_sandbox(broker: BrokerAccess, given: str) -> str:
    """The whole id of a sandbox that is named by the beginning of its id."""
    ids = [one.id for one in list_sandboxes(broker)]
    found = [one for one in ids if one == given] or [one for one in ids if one.startswith(given)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"There is no sandbox {given}.", "gym sandbox ls shows those there are.")
    raise UserError(f"{given} is the beginning of {len(found)} ids: {', '.join(found[:5])}.", "Give more of it.")


def stream_exec(broker: BrokerAccess, sandbox: str, request: dict[str, Any], stdin: bytes) -> Iterator[dict[str, Any]]:
    """The lines of a streamed command, the last of them with its result."""
    body = orjson.dumps({**request, "stdin": {"base64": base64.b64encode(stdin).decode()}, "stream": True})
    with connect(broker) as line:
        reply = _send(_ChannelConnection(line), broker, "POST", f"/sandboxes/{quote(sandbox, safe='')}/exec", body)
        yield from _lines(reply)


def follow_builds(broker: BrokerAccess) -> Iterator[dict[str, Any]]:
    """The lines of what is being built, until nothing is."""
    with connect(broker) as line:
        yield from _lines(_send(_ChannelConnection(line), broker, "GET", "/images/coming", b""))


def _lines(reply: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    while text := reply.readline():
        if text.strip():
            yield orjson.loads(text)


class _ChannelConnection(http.client.HTTPConnection):
    """Over a line that is there already, which httpx has no way to be given."""

    def __init__(self, line: Any) -> None:
        super().__init__("localhost")  # the broker is asked over a line of its own machine
        self.sock = line

    def connect(self) -> None:
        raise ConnectionError("the broker closed the line")


def _call(broker: BrokerAccess, method: str, path: str, body: bytes = b"") -> bytes:
    with connect(broker) as line:
        line.settimeout(SECONDS)
        return _send(_ChannelConnection(line), broker, method, path, body).read()


def _send(
    connection: _ChannelConnection, broker: BrokerAccess, method: str, path: str, body: bytes
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
