"""Rows that bring their own endpoint, as a trainer sends them: real local stacks, and every file that they leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import orjson

from gym.trainers import read_sequences
from gym.wire import items
from tests.support.cli import gym
from tests.support.fake_openai import Failure, FakeOpenAI, fake_openai, last_text
from tests.support.fake_vllm import fake_vllm
from tests.support.stacks import files_below

SERVERS = Path(__file__).parents[2] / "servers"
CONFIGURED, KEY = "sk-configured-0123456789", "sk-canary-0123456789"
ASKED = {"ask_researcher", "ask_critic"}
CONFIG = """
user_model:
  responses_api_models:
    openai:
      entrypoint: app.py
      openai_base_url: ${policy_base_url}
      openai_api_key: ${policy_api_key}
      openai_model: the_user
office_agent:
  responses_api_agents:
    user_sim_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: workplace_assistant}
      model_server: {type: responses_api_models, name: policy_model}
      user_model_server: {type: responses_api_models, name: user_model}
"""
ALL = ("simple_weather", "multi_turn", "workplace_assistant", "research_team", "-c", "mine.yaml")
ROLLOUTS = ("rollouts", "rows.jsonl", "-o", "out.jsonl", "--max-attempts", "1")
Row = dict[str, Any]


def answer(body: Row) -> list[items.Item]:
    """Hands parts out where it leads a team, and talks otherwise."""
    outputs = [one for one in items.input_items(body.get("input")) if one.get("type") == "function_call_output"]
    if {tool.get("name") for tool in body.get("tools") or ()} >= ASKED and not outputs:
        return [items.function_call(name, '{"task": "think"}') for name in sorted(ASKED)]
    return [items.message(f"###STOP### \\boxed{{A}} 10 {last_text(body)}")]


@asynccontextmanager
async def stack(folder: Path, names: tuple[str, ...], *words: str) -> AsyncIterator[tuple[FakeOpenAI, FakeOpenAI, str]]:
    """The provider that is configured, the one that rows name, and where the stack is."""
    async with fake_openai(api_key=CONFIGURED, answer=answer) as policy, fake_openai(api_key=KEY, answer=answer) as own:
        (folder / "mine.yaml").write_text(CONFIG)
        given = (f"policy_base_url={policy.url}", f"policy_api_key={CONFIGURED}", "policy_model_name=configured")
        async with up(folder, (*names, "--model", "openai", *given, *words)) as url:
            yield policy, own, url


@asynccontextmanager
async def up(folder: Path, words: tuple[str, ...]) -> AsyncIterator[str]:
    try:
        done = await asyncio.to_thread(gym, "up", *words, "--runtime", "local", "--port", "0", cwd=folder, timeout=300)
        assert done.returncode == 0, done.stderr
        info = await asyncio.to_thread(gym, "ps", "--json", cwd=folder)
        yield str(orjson.loads(info.stdout)["router"])
    finally:
        await asyncio.to_thread(gym, "down", cwd=folder)


def example(name: str) -> Row:
    row: Row = orjson.loads((SERVERS / name / "data" / "example.jsonl").read_bytes().splitlines()[0])
    return row


def rows(url: str) -> dict[str, Row]:
    """One of each agent, and two that name what may not be asked."""
    office = example("resources/workplace_assistant")
    office |= {"user": {"goal": "nothing"}, "agent_ref": {"type": "responses_api_agents", "name": "office_agent"}}
    office["responses_create_params"] = {**office["responses_create_params"], "input": []}
    found = {
        "simple": example("resources/simple_weather"),
        "episode": example("resources/multi_turn"),
        "team": example("agents/research_team"),
        "office": office,
    }
    own = {"policy_base_url": url, "policy_api_key": KEY, "policy_model_name": "weights-7"}
    found = {name: {**row, **own, "which": name} for name, row in found.items()}
    found["metadata"] = {**found["simple"], "which": "metadata", "policy_base_url": "http://169.254.169.254/v1"}
    found["no_url"] = {**found["simple"], "which": "no_url", "policy_base_url": "trainer:8000"}
    return found


def write(path: Path, found: Iterable[Row]) -> None:
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in found))


def read(path: Path) -> dict[str, Row]:
    return {one["which"]: one for one in map(orjson.loads, path.read_bytes().splitlines()) if "which" in one}


def files_with(folder: Path, text: str) -> list[str]:
    found = [path for path, data in files_below(folder).items() if text.encode() in data]
    return sorted(str(path.relative_to(folder)) for path in found)


def fetch(url: str, body: Any = None) -> bytes:
    data = None if body is None else orjson.dumps(body)
    with urlopen(Request(url, data=data, headers={"content-type": "application/json"}), timeout=240) as reply:
        answered: bytes = reply.read()
    return answered


async def test_every_agent_uses_the_endpoint_of_its_row_and_the_key_is_written_nowhere(tmp_path: Path) -> None:
    async with stack(tmp_path, ALL) as (policy, own, url):
        given = rows(own.url)
        write(tmp_path / "rows.jsonl", given.values())
        done = await asyncio.to_thread(gym, *ROLLOUTS, "--concurrency", "1", cwd=tmp_path, timeout=400)
        (tmp_path / "rows.jsonl").unlink()
        rolled, failures = read(tmp_path / "out.jsonl"), (tmp_path / "out_failures.jsonl").read_bytes().splitlines()
        assert rolled.keys() == {"simple", "episode", "team", "office"}, done.stderr + str(failures)
        assert {orjson.loads(one)["kind"] for one in failures} == {"row"}
        assert sorted(orjson.loads(one)["message"].split(":")[0] for one in failures) == ["policy_base_url"] * 2

        assert {one.headers["authorization"] for one in own.asked} == {f"Bearer {KEY}"}
        assert {one.body["model"] for one in own.asked} == {"weights-7"}
        assert {one.body["model"] for one in policy.asked} == {"the_user"}  # who plays the user is not the policy
        members = {call["agent"] for call in rolled["team"]["response"]["agent_calls"]}
        assert members == {"team_researcher", "team_critic"}
        for one in rolled.values():
            assert not [name for name in one if name.startswith("policy_")]
        materialized = read(tmp_path / "out_materialized_inputs.jsonl")
        assert {one["policy_api_key"] for one in materialized.values()} == {"****"}

        own.failures = [Failure(401, {"error": {"message": f"wrong key {KEY}"}})]
        refused = await asyncio.to_thread(fetch, f"{url}/rollouts", {"rows": [given["simple"]], "max_attempts": 1})
        assert b"wrong key ****" in refused
        pages = [await asyncio.to_thread(fetch, url + page) for page in ("/servers", "/held", "/collections")]
        assert KEY.encode() not in b"".join([refused, *pages])
        assert KEY not in done.stdout + done.stderr
        assert files_with(tmp_path, KEY) == []
        assert files_with(tmp_path, "weights-7")  # the search does find what is written


async def test_a_vllm_of_the_row_gives_its_own_token_ids(tmp_path: Path) -> None:
    asked = ("policy_base_url=http://127.0.0.1:9/v1", f"policy_api_key={CONFIGURED}", "policy_model_name=configured")
    ids = "policy_model.responses_api_models.vllm_model.return_token_id_information=true"
    async with fake_vllm() as own, up(tmp_path, ("simple_weather", "--model", "vllm_model", *asked, ids)):
        row = {**example("resources/simple_weather"), "which": "simple", "policy_base_url": own.url}
        write(tmp_path / "rows.jsonl", [row | {"policy_api_key": KEY, "policy_model_name": "weights-7"}])
        done = await asyncio.to_thread(gym, *ROLLOUTS, cwd=tmp_path, timeout=400)
        assert done.returncode == 0, done.stderr
        rolled = read(tmp_path / "out.jsonl")["simple"]
        (sequence,) = read_sequences(rolled)
        (body,) = own.bodies()
        assert sequence.prompt_ids == own.prompt(body)
        assert len(sequence.completion_ids) == len(sequence.log_probs) > 0
        assert (body["model"], own.headers[0]["authorization"]) == ("weights-7", f"Bearer {KEY}")
        (tmp_path / "rows.jsonl").unlink()
        assert files_with(tmp_path, KEY) == []


async def test_a_stack_that_others_reach_asks_no_private_endpoint_unless_its_settings_allow_it(tmp_path: Path) -> None:
    (tmp_path / "token.txt").write_text("t" * 32)
    wide = ("--bind", "0.0.0.0", "--token-file", "token.txt")
    row = {**example("resources/simple_weather"), "which": "simple", "policy_api_key": KEY}
    words = (*ROLLOUTS, "--token-file", "token.txt")
    async with stack(tmp_path, ("simple_weather",), *wide) as (_, own, _url):
        write(tmp_path / "rows.jsonl", [{**row, "policy_base_url": own.url}])
        await asyncio.to_thread(gym, *words, cwd=tmp_path)
        (failed,) = map(orjson.loads, (tmp_path / "out_failures.jsonl").read_bytes().splitlines())
        assert (failed["kind"], own.asked) == ("row", [])
        assert "policy_urls=[public,127.0.0.1]" in failed["message"]
