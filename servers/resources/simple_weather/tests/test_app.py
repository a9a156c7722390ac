"""simple_weather on a real socket, as an agent meets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.server import ServerApp
from gym.server.testing import Caller, Rows, read_lines, running
from gym.wire.items import message, response

HERE = Path(__file__).parents[1]
ROWS = read_lines(HERE / "data" / "example.jsonl")

pytestmark = pytest.mark.asyncio


async def test_any_city_is_cold(app: ServerApp) -> None:
    async with running(app) as url, Caller(url) as caller:
        reply = await caller.post("/get_weather", {"city": "São Paulo"})
        assert reply.body == {"city": "São Paulo", "weather_description": "The weather in São Paulo is cold."}


async def test_a_call_without_a_city_says_what_is_missing(app: ServerApp) -> None:
    async with running(app) as url, Caller(url) as caller:
        reply = await caller.post("/get_weather", {"town": "Paris"})
        assert reply.status == 422
        assert reply.body["detail"][0]["loc"] == ["body", "city"]


@pytest.mark.parametrize("row", ROWS)
async def test_every_rollout_is_worth_1_and_is_echoed(app: ServerApp, row: dict[str, Any]) -> None:
    body = row | {"response": response([message("Cold.")], model="test")}
    async with running(app) as url, Caller(url) as caller:
        assert (await caller.post("/seed_session", row)).status == 200
        reply = await caller.post("/verify", body)
    assert reply.body == body | {"reward": 1.0}


async def test_the_rows_offer_the_tool_as_the_server_describes_it(app: ServerApp, rows: Rows) -> None:
    async with running(app) as url, Caller(url) as caller:
        (tool,) = (await caller.get("/tools")).body
    for row in rows:
        (offered,) = row["responses_create_params"]["tools"]
        assert offered["name"] == tool["name"]
        assert offered["parameters"]["required"] == tool["parameters"]["required"]
