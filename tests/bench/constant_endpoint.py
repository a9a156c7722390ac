"""A model endpoint that answers from memory: prints its address, and serves until it is ended.

The reply has one call of the first tool where there are tools and none was called yet, else a fixed text. It knows
`/v1/responses` alone, reads no more of a request than that needs, and so costs as little beside what is measured.
"""

from __future__ import annotations

import asyncio
import json

import orjson
import uvloop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
USAGE = {"input_tokens": 80, "output_tokens": 40, "total_tokens": 120}
TEXT = "Let us look at each option in turn. " * 20 + "The answer is \\boxed{A}."


def reply(output: list[dict[str, object]]) -> bytes:
    body = orjson.dumps(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "constant",
            "status": "completed",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": USAGE,
            "output": output,
        }
    )
    return HEAD % len(body) + body


SAYS = reply(
    [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
        }
    ]
)
CALLS = reply(
    [
        {
            "id": "fc_1",
            "call_id": "call_1",
            "type": "function_call",
            "status": "completed",
            "name": "get_weather",
            "arguments": json.dumps({"city": "Oslo"}),
        }
    ]
)


class Endpoint(asyncio.Protocol):
    def __init__(self) -> None:
        self.read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]  # (uvloop's does not derive from it)

    def data_received(self, data: bytes) -> None:
        self.read += data
        head, found, body = self.read.partition(b"\r\n\r\n")
        _, _, length = head.lower().partition(b"content-length: ")
        if not found or len(body) < int(length.partition(b"\r\n")[0]):
            return
        self.read = b""
        calls = b'"tools":[{' in body and b"function_call_output" not in body
        self.transport.write(CALLS if calls else SAYS)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
