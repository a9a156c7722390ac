"""What the client of a stack sends for a row."""

from __future__ import annotations

from typing import Any

import orjson

from gym.client import AsyncStack
from gym.server.testing import running
from tests.support.asgi import live, read_body

TOOL = {"type": "function", "name": "count_letter", "parameters": {}}
SETTINGS = """
agent: {responses_api_agents: {simple_agent: {resources_server: {type: resources_servers, name: words}}}}
words: {resources_servers: {words: {entrypoint: app.py}}}
"""


async def stack(scope: Any, receive: Any, send: Any) -> None:
    """An agent that answers with what it is sent, and its server's tools."""
    if scope["type"] == "lifespan":
        await live(receive, send)
        return
    known = {"/global_config_dict_yaml": orjson.dumps(SETTINGS), "/s/words/tools": orjson.dumps([TOOL])}
    body = known.get(scope["path"]) or await read_body(receive)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def test_a_row_that_asks_for_its_server_s_tools_is_sent_with_them() -> None:
    async with running(stack) as url, AsyncStack.connect(url) as client:
        for tools, sent in (("auto", [TOOL]), ([], [])):
            row: dict[str, Any] = {"responses_create_params": {"input": "?", "tools": tools}}
            assert (await client.run(row, agent="agent"))["responses_create_params"] == {"input": "?", "tools": sent}
