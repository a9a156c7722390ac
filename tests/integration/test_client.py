"""`gym.client` and `gym ask` against a running stack: agents, questions, rows, many rollouts, the official client."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from gym.client import AsyncStack, Stack, conversation
from gym.collect import AttemptOptions
from gym.errors import InfraError, UserError
from gym.pytest_plugin import StackStarts
from gym.testing import GymStack
from gym.wire.failures import RolloutError
from tests.support.cli import gym

ROWS = Path(__file__).parents[2] / "servers" / "resources" / "mcqa" / "data" / "example.jsonl"
ENVIRONMENTS = ["mcqa", "simple_weather", "stateful_counter"]
ASKED = "What is the weather in Paris?"


@pytest.fixture(scope="module")
def up(gym_stack: StackStarts) -> GymStack:
    return gym_stack("simple_weather", "stateful_counter", "mcqa", runtime="local")


def mcqa_rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]


def test_a_stack_is_asked_without_an_event_loop(up: GymStack) -> None:
    with Stack.connect(up.url) as stack:
        assert stack.agents() == [f"{name}_simple_agent" for name in ENVIRONMENTS]
        assert stack.models() == ["policy_model"]
        assert stack.environments() == ENVIRONMENTS
        answer = stack.ask("simple_weather_simple_agent", ASKED)
        lines = list(conversation(answer))
        assert lines[0] == '-> get_weather({"city":"Paris"})'
        assert lines[-1] == "assistant: The weather in Paris is cold."
        assert [one["type"] for one in stack.ask("simple_weather_simple_agent", ASKED, tools=[])["output"]] == [
            "message"
        ]
        rolled = stack.run(mcqa_rows()[0])
        assert rolled["reward"] in (0.0, 1.0)
        assert rolled["response"]["output"]


async def test_rollouts_come_as_they_finish_every_key_once(up: GymStack) -> None:
    async with AsyncStack.connect(up.url) as stack:
        found = [one async for one in stack.rollouts(mcqa_rows(), repeats=3)]
    assert sorted((one.row, one.repeat) for one in found) == [(row, time) for row in range(5) for time in range(3)]
    assert all(one.reward is not None for one in found)


def weather_rows(tools: str) -> list[dict[str, Any]]:
    params = {"input": [{"role": "user", "content": ASKED}], "tools": tools}
    return [{"responses_create_params": params, "agent_ref": {"name": "simple_weather_simple_agent"}}]


def test_tools_of_the_server_are_filled_in_where_a_row_says_auto(up: GymStack) -> None:
    with Stack.connect(up.url) as stack:
        (rollout,) = stack.rollouts(weather_rows("auto"))
    assert rollout.result is not None
    assert offered(rollout.result) == ["get_weather"]


@pytest.mark.parametrize("options", [{}, {"size": 2}], ids=["rollouts", "groups"])
def test_tools_are_filled_in_over_http_too(up: GymStack, options: dict[str, int]) -> None:
    order = {"rows": weather_rows("auto"), **options}
    lines = httpx.post(f"{up.url}/rollouts", json=order, timeout=120).text.splitlines()
    found = json.loads(lines[0])
    assert [offered(one) for one in found.get("rollouts", [found])] == [["get_weather"]] * options.get("size", 1)


def test_rows_that_list_no_tools_are_named_in_the_log_of_who_collects(
    up: GymStack, caplog: pytest.LogCaptureFixture
) -> None:
    rows = weather_rows("")
    del rows[0]["responses_create_params"]["tools"]
    said = "get_weather is never offered to the model: rows of simple_weather_simple_agent list no tools."
    with Stack.connect(up.url) as stack:
        assert len(list(stack.rollouts(rows, repeats=2))) == 2
    (line,) = [one for one in caplog.messages if said in one]
    assert line.endswith('"tools": "auto" in responses_create_params')
    assert said not in up.get_logs("console")
    httpx.post(f"{up.url}/rollouts", json={"rows": rows}, timeout=120).raise_for_status()
    assert said in up.get_logs("console")


def offered(rollout: dict[str, Any]) -> list[str]:
    """The tools that the model was offered, and it called the first."""
    assert rollout["response"]["output"][0]["name"] == "get_weather"
    return [one["name"] for one in rollout["responses_create_params"]["tools"]]


def test_rollouts_without_an_event_loop_may_be_left_early(up: GymStack) -> None:
    with Stack.connect(up.url) as stack:
        some = stack.rollouts(mcqa_rows(), repeats=50, options=AttemptOptions(concurrency=2))
        assert next(some).reward is not None
        some.close()  # type: ignore[attr-defined]  # a generator
        assert len(list(stack.rollouts(mcqa_rows()))) == 5


def test_the_official_client_talks_to_a_model_of_the_stack(up: GymStack) -> None:
    with Stack.connect(up.url) as stack, stack.openai() as client:
        assert client.responses.create(model="any", input="Say a word.").output_text


async def test_the_official_client_has_its_asynchronous_twin(up: GymStack) -> None:
    async with AsyncStack.connect(up.url) as other, other.openai("policy_model") as client:
        assert (await client.responses.create(model="any", input="Say a word.")).output_text


async def test_a_session_goes_on_by_its_cookies_and_no_other_call_joins_it(up: GymStack) -> None:
    row = {"responses_create_params": {"input": "x"}, "initial_count": 3, "expected_count": 5}
    async with AsyncStack.connect(up.url) as stack:
        seeded = await stack.post("stateful_counter", "/seed_session", row)
        session = dict(seeded.cookies)
        await stack.post("stateful_counter", "/increment_counter", {"count": 2}, cookies=session)
        mine = await stack.post("stateful_counter", "/get_counter_value", cookies=session)
        other = await stack.post("stateful_counter", "/get_counter_value")
    assert mine.json() == {"count": 5}
    assert other.json() != mine.json()


async def test_what_is_wrong_is_said_by_name(up: GymStack) -> None:
    async with AsyncStack.connect(up.url) as stack:
        with pytest.raises(UserError, match=r"(?s)no agent 'mcqa_agent'.*mcqa_simple_agent"):
            await stack.ask("mcqa_agent", "x")
        with pytest.raises(UserError, match="no agent 'nothing'"):
            await stack.run({"responses_create_params": {"input": "x"}}, agent="nothing")
        with pytest.raises(UserError, match="names no agent"):
            await stack.run({"responses_create_params": {"input": "x"}})
        with pytest.raises(RolloutError, match="expected_answer") as broken:
            await stack.run({"responses_create_params": {"input": "x"}}, agent="mcqa_simple_agent")
        assert broken.value.kind == "row"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        async with AsyncStack.connect(url) as nowhere:
            with pytest.raises(InfraError, match="cannot be reached"):
                await nowhere.agents()


def test_gym_ask_shows_the_conversation_and_the_verdict_of_a_row(up: GymStack) -> None:
    asked = gym("ask", "simple_weather_simple_agent", ASKED, cwd=up.folder)
    assert asked.stdout.splitlines()[-1] == "assistant: The weather in Paris is cold."
    row = gym("ask", "mcqa_simple_agent", "--row", f"{ROWS}:2", cwd=up.folder)
    assert row.returncode == 0, row.stderr
    assert "\nreward " in row.stdout
    assert "reward" in json.loads(gym("ask", "mcqa_simple_agent", "--row", str(ROWS), "--json", cwd=up.folder).stdout)
    for words, sentence in (
        (("mcqa_simple_agent",), "Ask one question, or one row."),
        (("mcqa_simple_agent", "--row", f"{ROWS}:99"), "has no line 99"),
        (("mcqa_simple_agent", "--row", "nowhere.jsonl"), "nowhere.jsonl cannot be read"),
        (("no_such_agent", "x"), "has no agent 'no_such_agent'"),
    ):
        done = gym("ask", *words, cwd=up.folder)
        assert done.returncode == 1
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
