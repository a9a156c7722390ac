"""A model endpoint with replies of any size: prints its address, and serves `/v1/responses` until it is ended.

    .venv/bin/python tests/bench/large_endpoint.py [--ids 0] [--text 400] [--steps 0] [--tool get_weather]

It answers with a tool call until the request has as many tool outputs as `--steps` says, then with a text. Each reply
has as many ids of its prompt, ids of what was drawn and log-probs as `--ids` says. Requests are counted, not read.
"""

from __future__ import annotations

import argparse
import asyncio
import random

import orjson
import uvloop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
OUTPUT = b'"function_call_output"'
VOCABULARY = 151_643


def tokens(count: int, seed: int = 1) -> dict[str, list[int] | list[float]]:
    """As a model of that vocabulary gives them: 6 bytes an id, 20 a log-prob."""
    drawn = random.Random(seed)
    ids = [drawn.randrange(VOCABULARY) for _ in range(2 * count)]
    log_probs = [-3 * drawn.random() for _ in range(count)]
    return {
        "prompt_token_ids": ids[:count],
        "generation_token_ids": ids[count:],
        "generation_log_probs": log_probs,
    }


def reply(item: dict[str, object], ids: int) -> bytes:
    usage = {"input_tokens": 80, "output_tokens": max(ids, 40), "total_tokens": 80 + max(ids, 40)}
    fields = {"id": "resp_1", "object": "response", "created_at": 1, "model": "constant", "status": "completed"}
    asked = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    output = [{**item, **(tokens(ids) if ids else {})}]
    return orjson.dumps({**fields, **asked, "usage": usage, "output": output})


def message(text: int) -> dict[str, object]:
    said = ("Let us look at each option in turn.\n" * (text // 36 + 1))[:text] + "The answer is \\boxed{A}."
    part = {"type": "output_text", "text": said, "annotations": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def call(tool: str) -> dict[str, object]:
    arguments = orjson.dumps({"city": "Oslo"}).decode()
    named = {"name": tool, "arguments": arguments, "status": "completed"}
    return {"id": "fc_1", "call_id": "call_1", "type": "function_call", **named}


class LargeEndpoint(asyncio.Protocol):
    def __init__(self, calls: bytes, says: bytes, steps: int) -> None:
        self._calls, self._says, self._steps = calls, says, steps
        self._head = b""
        self._body = bytearray()
        self._length = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # (uvloop's does not derive from it)

    def data_received(self, data: bytes) -> None:
        if self._length < 0:
            self._head += data
            head, found, rest = self._head.partition(b"\r\n\r\n")
            if not found:
                return
            self._length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
            data = rest
        self._body += data
        if len(self._body) < self._length:
            return
        made = self._body.count(OUTPUT) if self._steps else 0
        answer = self._calls if made < self._steps else self._says
        self._head, self._body, self._length = b"", bytearray(), -1
        self._transport.write(HEAD % len(answer))
        self._transport.write(answer)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=0)
    parser.add_argument("--text", type=int, default=400)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--tool", default="get_weather")
    options = parser.parse_args()
    calls, says = reply(call(options.tool), options.ids), reply(message(options.text), options.ids)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: LargeEndpoint(calls, says, options.steps), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
