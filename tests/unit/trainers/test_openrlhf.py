"""The agent hook of OpenRLHF: an episode of a stack becomes its sample, and what failed becomes none."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import orjson
import pytest

from gym.collect import AttemptOptions
from gym.errors import GymError, UserError
from gym.http.pool import HttpClient
from gym.server.testing import running
from gym.trainers.openrlhf import make_executor, read_row, result_to_sample
from gym.wire.failures import RolloutError
from gym.wire.token_ids import TRIPLE, read_tokens
from tests.support.asgi import live, read_body
from tests.support.fake_engine import CharTokenizer, FakeEngine, params

Json = dict[str, Any]
ROW = {"responses_create_params": {"input": "Hi"}, "agent_ref": {"name": "lab"}, "wants": "no"}
TOKENIZER = CharTokenizer()
ONCE = AttemptOptions(max_attempts=2, backoff=0.01)


@dataclass
class Stack:
    """One agent, which asks the policy of its row twice; the second word is rewarded where it is the one wanted."""

    url: str = ""
    fails: int = 0
    now: int = 0
    most: int = 0  # episodes at once
    rows: list[Json] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        body = await read_body(receive)
        status, reply = 200, self.discovery()
        if scope["path"].endswith("/run"):
            self.now += 1
            self.most = max(self.most, self.now)
            status, reply = await self.run(orjson.loads(body))
            self.now -= 1
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": orjson.dumps(reply)})

    def discovery(self) -> Json:
        replicas = [{"id": "lab-1", "url": self.url}]
        one = {"type": "responses_api_agents", "implementation": "fake", "replicas": replicas}
        return {"stack": "fake", "router": self.url, "instances": {"lab": one}}

    async def run(self, row: Json) -> tuple[int, Json]:
        self.rows.append(row)
        if len(self.rows) <= self.fails:
            return 500, {"error": {"kind": "resources", "server": "lab", "message": "down", "retryable": True}}
        http, output = HttpClient(asks_health=False), []
        messages: list[Json] = [{"role": "user", "content": row["responses_create_params"]["input"]}]
        prefix: list[int] = []
        for _ in range(2):
            body = {"model": row["policy_model_name"], "messages": messages, "required_prefix_token_ids": prefix}
            url = f"{row['policy_base_url']}/chat/completions"
            reply = await http.request("POST", url, body=orjson.dumps(body), timeout=30)
            assert reply.status == 200, reply.body
            tokens = read_tokens(completion := orjson.loads(reply.body))
            assert tokens.prompt is not None
            fields, prefix = tokens.to_fields(), tokens.prompt + tokens.generation
            said = completion["choices"][0]["message"]["content"]
            messages += [{"role": "assistant", "content": said, **fields}, {"role": "user", "content": "So?"}]
            output.append({"type": "message", "role": "assistant", "content": said, **fields})
        await http.aclose()
        reward = float(said == row["wants"])
        kept = {key: value for key, value in row.items() if not key.startswith("policy_")}
        return 200, {**kept, "response": {"output": output}, "reward": reward}


@asynccontextmanager
async def stack(**fields: Any) -> AsyncIterator[Stack]:
    app = Stack(**fields)
    async with running(app) as app.url:
        yield app


class Base:
    """Where OpenRLHF's own stands."""


@pytest.fixture(autouse=True)
def openrlhf(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("openrlhf.utils.agent")
    module.AgentExecutorBase = Base  # type: ignore[attr-defined]
    for name in ("openrlhf", "openrlhf.utils"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "openrlhf.utils.agent", module)


async def execute(made: Any, engine: FakeEngine, label: Any = None, logprobs: int | None = 1) -> Json:
    """As OpenRLHF's engine calls it."""
    executor = made()
    label = orjson.dumps(ROW).decode() if label is None else label
    try:
        found: Json = await executor.execute(
            prompt="p",
            label=label,
            sampling_params=params(logprobs=logprobs),
            max_length=60,
            hf_tokenizer=TOKENIZER,
            llm_engine=engine,
            images=None,
        )
    finally:
        if executor.endpoint is not None:
            assert executor.endpoint._episodes == {}
            await executor.endpoint.aclose()
    return found


async def test_an_episode_of_two_turns_is_one_sample_with_what_the_engine_drew() -> None:
    async with stack() as one:
        made = make_executor(one.url, options=ONCE)
        assert issubclass(made, Base)
        found = await execute(made, FakeEngine(["yes", "no"]))
    ids = found["observation_tokens"]
    assert TOKENIZER.decode(ids) == (
        "<|user|>Hi<|end|>\n<|assistant|>yes<|end|>\n<|user|>So?<|end|>\n<|assistant|>no<|end|>"
    )
    spoken = [TOKENIZER.decode(ids[start:end]) for start, end in found["action_ranges"]]
    assert spoken == ["yes<|end|>", "no<|end|>"]
    inside = {place for start, end in found["action_ranges"] for place in range(start, end)}
    wanted = [-one / 1000 if place in inside else 0.0 for place, one in enumerate(ids)]
    assert found["rollout_log_probs"] == wanted
    assert (found["reward"], found["scores"], found["truncated"], found["extra_logs"]) == (1.0, 1.0, False, {})
    assert (found["prompt"], orjson.loads(found["label"]), found["images"]) == ("p", ROW, None)


async def test_samples_that_begin_at_once_share_an_endpoint_and_keep_apart() -> None:
    rows = [{**ROW, "wants": word} for word in ("yes", "no", "yes")]
    async with stack() as one:
        executor, engine = make_executor(one.url, options=AttemptOptions(concurrency=2))(), FakeEngine(["yes"])
        given: Json = {"sampling_params": params(), "max_length": 60, "hf_tokenizer": TOKENIZER, "llm_engine": engine}
        labels = [orjson.dumps(row).decode() for row in rows]
        found = await asyncio.gather(*(executor.execute(prompt="p", label=label, **given) for label in labels))
        await executor.endpoint.aclose()
    assert ([sample["reward"] for sample in found], one.most) == ([1.0, 0.0, 1.0], 2)
    assert len({row["policy_base_url"] for row in one.rows}) == 3
    assert len({row["policy_base_url"].split("/")[2] for row in one.rows}) == 1


async def test_no_log_probs_are_sent_where_the_trainer_asks_for_none() -> None:
    async with stack() as one:
        found = await execute(make_executor(one.url), FakeEngine(["yes", "yes"]), logprobs=None)
    assert (found["rollout_log_probs"], found["reward"]) == (None, 0.0)


async def test_a_failure_is_a_new_episode_and_then_an_error_never_a_reward() -> None:
    async with stack(fails=1) as one:
        found = await execute(make_executor(one.url, options=ONCE), FakeEngine(["yes", "no"]))
        assert (found["reward"], len(one.rows)) == (1.0, 2)
    async with stack(fails=9) as one:
        with pytest.raises(RolloutError, match="down") as caught:
            await execute(make_executor(one.url, options=ONCE), FakeEngine(["yes"]))
        assert (caught.value.kind, len(one.rows)) == ("resources", 2)


def test_a_label_keeps_large_integers() -> None:
    row = {**ROW, "id": 10**29 + 7}
    assert read_row(json.dumps(row)) == row


@pytest.mark.parametrize("label", ["", "42", None, '{"answer": 3}', "{broken"])
async def test_a_label_that_is_not_a_row_is_refused_before_anything_runs(label: Any) -> None:
    engine = FakeEngine(["yes"])
    with pytest.raises(GymError, match="the label is not a row as JSON"):
        await execute(make_executor("http://127.0.0.1:9"), engine, label if label is not None else 7)
    assert engine.asked == []


def call(prompt: list[int], generation: list[int]) -> Json:
    values = (prompt, generation, [-0.5] * len(generation))
    return {"type": "message", **dict(zip(TRIPLE, values, strict=True))}


def result(*output: Json, **response: Any) -> Json:
    return {"reward": 0.5, "response": {"output": list(output), **response}}


def test_an_episode_that_was_cut_off_says_so() -> None:
    cut = {"incomplete_details": {"reason": "max_output_tokens"}}
    assert result_to_sample(result(call([1], [2]), **cut), log_probs=True)["truncated"] is True
    assert result_to_sample(result(call([1], [2]), truncated_by="steps"), log_probs=True)["truncated"] is True
    assert result_to_sample(result(call([1], [2])), log_probs=True)["truncated"] is False


@pytest.mark.parametrize(("output", "why"), [([], "no token ids"), ([call([1], [2]), call([8], [9])], "2 sequences")])
def test_what_is_not_one_sequence_cannot_be_trained_on(output: list[Json], why: str) -> None:
    with pytest.raises(UserError, match=f"cannot train on: .*{why}"):
        result_to_sample(result(*output), log_probs=True)
