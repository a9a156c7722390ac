"""Addresses of a model's provider, said and changed while a stack of real processes runs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from gym.http.pool import HttpClient
from gym.runtime.status import ReplicaStatus
from gym.testing import GymStack
from tests.support.cli import gym
from tests.support.fake_vllm import FakeVLLM, Said, fake_vllm
from tests.support.stacks import replica

pytestmark = pytest.mark.asyncio(loop_scope="module")
PATH = "/admin/models/policy_model/upstreams"
STACK = """
policy_model:
  responses_api_models:
    vllm_model: {entrypoint: app.py, base_url: [], api_key: sk-configured, model: late, REST}
judge_model:
  responses_api_models:
    scripted: {entrypoint: app.py}
"""
CITY = '{"city": "Oslo"}'
ROW = {"responses_create_params": {"input": "A or B?"}, "options": [{"A": "x"}, {"B": "y"}], "expected_answer": "A"}


class Stack:
    def __init__(self, up: GymStack) -> None:
        self.up = up
        self.folder = up.folder
        self.router = up.url
        self.http = HttpClient()

    async def send(self, method: str, path: str = PATH, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = b"" if body is None else orjson.dumps(body)
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        reply = await self.http.request(method, self.router + path, body=data, headers=pairs, timeout=120)
        return reply.status, orjson.loads(reply.body)

    async def run(self, rollout: str = "1") -> tuple[int, Any]:
        """One rollout, by whichever replica of the model its agent takes."""
        return await self.send("POST", "/s/mcqa_simple_agent/run", ROW, **{"x-gym-rollout-id": rollout})

    async def find(self, name: str) -> ReplicaStatus:
        return replica(await asyncio.to_thread(self.up.status), name)

    async def kill(self, name: str) -> None:
        """And wait until the stack has started it again."""
        before = (await self.find(name)).pid
        assert before
        os.kill(before, signal.SIGKILL)
        while (now := await self.find(name)).pid in (None, before) or now.state != "healthy":
            await asyncio.sleep(0.2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    folder = tmp_path_factory.mktemp("upstreams")
    (folder / "mine.yaml").write_text(STACK.replace("REST", "return_token_id_information: true, replicas: 2"))
    up = GymStack("mcqa", "simple_weather", model=None, runtime="local", folder=folder).with_config("mine.yaml")
    async with up:
        made = Stack(up)
        yield made
        await made.http.aclose()


def put(*servers: FakeVLLM, **more: Any) -> dict[str, Any]:
    return {"base_urls": [one.url for one in servers], **more}


async def test_addresses_that_are_said_late_reach_every_replica_and_are_shown_without_their_key(stack: Stack) -> None:
    status, before = await stack.send("GET")
    assert (status, before["source"], before["base_urls"]) == (200, "configuration", [])
    code, failed = await stack.run()
    assert (code, failed["error"]["kind"]) == (502, "model")
    async with fake_vllm() as one, fake_vllm() as two:
        status, answer = await stack.send("PUT", body=put(one, two, api_key="sk-of-the-trainer", model="step-7"))
        assert (status, answer["reached"], answer["has_key"]) == (200, True, True)
        assert {one["version"] for one in answer["replicas"].values()} == {1}
        assert len(answer["replicas"]) == 2
        rollouts = [await stack.run(str(number)) for number in range(8)]
        assert [code for code, _ in rollouts] == [200] * 8
        assert all("generation_token_ids" in body["response"]["output"][-1] for _, body in rollouts)
        assert [len(one.bodies()) > 0, len(two.bodies()) > 0] == [True, True]
        assert {body["model"] for server in (one, two) for body in server.bodies()} == {"step-7"}
        assert {headers["authorization"] for headers in one.headers + two.headers} == {"Bearer sk-of-the-trainer"}
        _, shown = await stack.send("GET")
        assert b"sk-of-the-trainer" not in orjson.dumps(shown)


async def test_they_hold_when_a_replica_and_the_console_are_killed_and_end_when_they_are_taken_back(
    stack: Stack,
) -> None:
    async with fake_vllm() as server:
        status, body = await stack.send("PUT", body={"policy_base_url": server.url})
        assert (status, body["base_urls"]) == (200, [server.url])
        await asyncio.gather(stack.kill("policy-model-1"), stack.kill("policy-model-2"), stack.kill("console"))
        assert (await stack.run("after"))[0] == 200
        # The configured key is for the configured hosts only.
        assert all("authorization" not in headers for headers in server.headers)
        _, shown = await stack.send("GET")
        assert (shown["version"], shown["reached"]) == (body["version"], True)
        status, back = await stack.send("DELETE")
        assert (status, back["source"], back["reached"], back["base_urls"]) == (200, "configuration", True, [])
        assert (await stack.run("none"))[0] == 502


def look_then_say(messages: list[dict[str, Any]]) -> Said:
    """A thought and a call, then a thought and a text."""
    asked = messages[-1]["role"] == "user"
    return Said("", "I look.", [("get_weather", CITY)]) if asked else Said("It is cold.", "Cold.")


async def collect(stack: Stack, server: FakeVLLM, name: str) -> tuple[Path, int]:
    status, _ = await stack.send("PUT", body=put(server))
    assert status == 200
    output = stack.folder / f"{name}.jsonl"
    words = ("rollouts", "simple_weather", "-o", str(output), "--max-attempts", "1")
    done = await asyncio.to_thread(gym, *words, cwd=stack.folder, timeout=120)
    return output, done.returncode


@pytest.mark.parametrize("drops", [True, False])
async def test_rows_say_whether_their_tokens_add_up_and_metrics_count_those_that_do_not(
    stack: Stack, drops: bool
) -> None:
    async with fake_vllm(says=look_then_say, drops_thoughts=drops) as server:
        output, code = await collect(stack, server, f"drops-{drops}")
    assert code == 0
    rows = [orjson.loads(line) for line in output.read_bytes().splitlines()]
    found = [row["_gym"].get("tokens_break") for row in rows]
    (entry,) = orjson.loads(output.with_name(f"{output.stem}_aggregate_metrics.json").read_bytes())
    if not drops:
        assert found == [None] * len(rows) != []
        assert "tokens_breaks" not in entry["agent_metrics"]
        return
    first, second = (item for item in rows[0]["response"]["output"] if "generation_token_ids" in item)
    assert found[0]["step"] == 2
    assert found[0]["expected"] == len(first["prompt_token_ids"] + first["generation_token_ids"])
    assert (found[0]["prompt"], found[0]["common"]) == (len(second["prompt_token_ids"]), len(first["prompt_token_ids"]))
    assert entry["agent_metrics"]["tokens_breaks"] == len(rows)


async def test_without_the_ids_that_are_asked_for_there_is_no_row_but_a_failure(stack: Stack) -> None:
    async with fake_vllm(says=look_then_say, form="none") as server:
        output, code = await collect(stack, server, "none")
    assert code != 0
    assert output.read_bytes() == b""
    failures = [orjson.loads(line) for line in output.with_name("none_failures.jsonl").read_bytes().splitlines()]
    assert {one["kind"] for one in failures} == {"model"}
    assert all("token ids were asked for" in one["message"] for one in failures)


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("policy_model", {}, "Field required"),
        ("policy_model", {"base_urls": []}, "at least 1 item"),
        ("policy_model", {"base_urls": ["ftp://x"]}, "http(s) address"),
        ("policy_model", {"base_urls": "http://u:secret-word@x/v1"}, "no password"),
        ("policy_model", {"base_urls": "http://x/v1", "apikey": "secret-word"}, "did you mean api_key?"),
        ("policy_model", {"base_urls": "http://x/v1", "api_key": ["secret-word"]}, "api_key"),
        ("policy_model", [1], "not an object"),
        ("policy_mode", {"base_urls": "http://x/v1"}, "did you mean policy_model?"),
        ("mcqa", {"base_urls": "http://x/v1"}, "there is no model"),
        ("judge_model", {"base_urls": "http://x/v1"}, "takes no addresses at run time"),
    ],
)
async def test_what_cannot_be_done_changes_nothing_and_repeats_no_secret(
    stack: Stack, name: str, body: Any, words: str
) -> None:
    _, before = await stack.send("GET")
    status, answer = await stack.send("PUT", f"/admin/models/{name}/upstreams", body)
    assert status == 422
    assert words in answer["error"]["message"]
    assert "secret-word" not in answer["error"]["message"]
    assert (await stack.send("GET"))[1]["version"] == before["version"]
