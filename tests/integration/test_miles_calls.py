"""What miles' example posts: its rows' fields at the top, an empty input, its session as the policy. On a real stack.

The agent is the one of the address. miles reads `reward` and `metadata` of the reply; what is 400 or more is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.http.pool import HttpClient
from gym.testing import GymStack
from tests.support.fake_vllm import FakeVLLM, Said, fake_vllm

pytestmark = pytest.mark.asyncio(loop_scope="module")
Json = dict[str, Any]
DATA = Path(__file__).parents[2] / "servers" / "resources" / "simple_weather" / "data" / "example.jsonl"
STACK = """
policy_model:
  responses_api_models:
    vllm_model: {entrypoint: app.py, base_url: [], model: unused}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of the agent, as `NEMO_GYM_URL` would have it."""
    mine = tmp_path_factory.mktemp("miles") / "mine.yaml"
    mine.write_text(STACK)
    with GymStack("simple_weather", model=None, runtime="local").with_config(mine) as stack:
        yield f"{stack.url}/s/simple_weather_simple_agent"


def says(messages: list[Json]) -> Said:
    if not messages or messages[-1]["role"] == "tool":
        return Said("It is cold.")
    return Said(calls=[("get_weather", '{"city": "Paris"}')])


async def post(url: str, session: FakeVLLM, **metadata: Any) -> tuple[int, Json]:
    params = {"input": [], "temperature": 0.7, "top_p": 0.9, "max_output_tokens": 64}
    http = HttpClient()
    body = orjson.dumps({**metadata, "responses_create_params": params, "policy_base_url": session.url})
    reply = await http.request("POST", f"{url}/run", body=body, timeout=60)
    await http.aclose()
    return reply.status, orjson.loads(reply.body)


def example() -> Json:
    row: Json = orjson.loads(DATA.read_bytes().splitlines()[0])
    return row


async def test_a_row_that_keeps_its_prompt_as_a_default_is_played_with_the_session_that_it_brings(url: str) -> None:
    params = example()["responses_create_params"]
    beside = {"instance_id": "i-1", "session_server_id": "s", "max_seq_len": 4096}
    async with fake_vllm(says=says) as session:
        status, reply = await post(url, session, **beside, responses_create_params_defaults=params)
    assert (status, reply["reward"], reply.get("metadata") or {}) == (200, 1.0, {})
    assert {name: reply[name] for name in beside} == beside
    first, second = session.bodies()
    assert [one["role"] for one in first["messages"]] == ["system", "user"]
    assert [one["function"]["name"] for one in first["tools"]] == ["get_weather"]
    assert {(one["temperature"], one["top_p"], one["max_tokens"]) for one in (first, second)} == {(0.7, 0.9, 64)}


async def test_a_row_without_any_prompt_is_refused_before_the_model_is_asked(url: str) -> None:
    async with fake_vllm(says=says) as session:
        status, reply = await post(url, session, instance_id="i-1")
    assert (status, reply["error"]["kind"], "reward" in reply) == (422, "row", False)
    assert "responses_create_params_defaults" in reply["error"]["message"]
    assert session.asked == []


async def test_a_session_that_fails_is_a_failure_without_a_reward(url: str) -> None:
    params = example()["responses_create_params"]
    async with fake_vllm(status=(400, {"error": {"message": "no such session"}})) as session:
        status, reply = await post(url, session, responses_create_params_defaults=params)
    assert status >= 400
    assert (reply["error"]["kind"], "reward" in reply) == ("model", False)
