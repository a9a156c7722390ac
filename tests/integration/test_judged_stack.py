"""Judged environments with a judge that is a model server of its own: a real stack between two providers."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import orjson
import pytest
import pytest_asyncio

from gym.server.testing import running
from gym.testing import GymStack
from gym.wire import items
from tests.support.cli import gym
from tests.support.fake_openai import Body, Failure, FakeOpenAI, last_text

pytestmark = pytest.mark.asyncio(loop_scope="module")
UP = ("simpleqa", "equivalence_llm_judge", "judge_model")
ASK_ONCE = "++equivalence_llm_judge.resources_servers.equivalence_llm_judge.judge_retries=0"
ENV = """
policy_base_url: {policy}
policy_api_key: policy-key
policy_model_name: policy
judge_base_url: {judge}
judge_api_key: judge-key
judge_model_name: judge
"""
AGENTS = ("simpleqa_simple_agent", "equivalence_llm_judge_simple_agent")


@dataclass
class Provider(FakeOpenAI):
    """`open` cleared: it takes calls and does not answer them."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    now: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        self.open.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.open.wait()
            await super().__call__(scope, receive, send)
        finally:
            self.now -= 1


@dataclass
class Stack:
    up: GymStack
    policy: Provider
    judge: Provider
    close_judge: AsyncExitStack
    collected: int = 0

    async def collect(self, agents: tuple[str, ...], *words: str, rows: int = 4) -> tuple[list[Body], list[Body]]:
        """Rollouts and failures of rows whose answers are right and wrong by turns."""
        self.collected += 1
        self.judge.asked.clear()
        path = self.up.folder / f"in{self.collected}.jsonl"
        lines = [row(number, agent) for number in range(rows) for agent in agents]
        path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        output = self.up.folder / f"X{self.collected}.jsonl"
        done = await asyncio.to_thread(
            gym, "rollouts", path.name, "-o", output.name, "--max-attempts", "1", *words, cwd=self.up.folder
        )
        assert done.returncode in (0, 1), done.stderr
        return read(output), read(output.with_name(f"{output.stem}_failures.jsonl"))

    async def judge_health(self) -> dict[str, Any]:
        url = next(one.url for one in self.up.status().replicas if one.instance == "judge_model")
        return await asyncio.to_thread(look, f"{url}/healthz")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    folder = tmp_path_factory.mktemp("judged")
    policy = Provider(api_key="policy-key", answer=lambda body: [items.message(last_text(body).partition(": ")[2])])
    judge = Provider(api_key="judge-key", answer=lambda body: [items.message(verdict(last_text(body)))])
    async with running(policy) as policy_url, AsyncExitStack() as until_closed:
        judge_url = await until_closed.enter_async_context(running(judge))
        (folder / "env.yaml").write_text(ENV.format(policy=f"{policy_url}/v1", judge=f"{judge_url}/v1"))
        async with GymStack(*UP, ASK_ONCE, model="openai", runtime="local", folder=folder) as up:
            yield Stack(up, policy, judge, until_closed)


def row(number: int, agent: str) -> Body:
    """The policy says what stands behind the colon."""
    said = f"{('wrong', 'right')[number % 2]} {number}"
    asked = {"input": [{"role": "user", "content": f"Say this: {said}"}]}
    ref = {"type": "responses_api_agents", "name": agent}
    return {"responses_create_params": asked, "expected_answer": f"right {number}", "agent_ref": ref}


def verdict(prompt: str) -> str:
    found = re.search(r"<\|candidate(?: answer)?\|>\s*(\w+)", prompt)
    assert found
    same = found[1] == "right"
    if "[[A=B]]" in prompt:
        return f"I have looked at both. {'[[A=B]]' if same else '[[A!=B]]'}"
    return "A" if same else "B"


def read(path: Path) -> list[Body]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def look(url: str) -> dict[str, Any]:
    with urlopen(url, timeout=60) as reply:
        health: dict[str, Any] = json.loads(reply.read())["upstream"]
    return health


def judged_by(rollout: Body) -> str:
    """The judge's words as the reply of the verifier holds them."""
    (evaluation,) = rollout["judge_evaluations"]
    return items.output_text(evaluation["response"]["output"])


def asked_of_judge(rollout: Body) -> Body:
    asked: Body = rollout["judge_evaluations"][0]["responses_create_params"]
    return asked


async def test_rewards_are_the_judges_verdicts_and_its_words_are_in_the_reply(stack: Stack) -> None:
    rollouts, failures = await stack.collect(AGENTS)
    assert failures == []
    assert len(rollouts) == 8
    for one in rollouts:
        right = one["_ng_task_index"] // 2 % 2 == 1
        assert one["reward"] == float(right)
        short, long = ("A", "[[A=B]]") if right else ("B", "[[A!=B]]")
        assert judged_by(one) in (short, f"I have looked at both. {long}")
        assert one["expected_answer"] in items.last_user_text(asked_of_judge(one)["input"])
        assert set(one["_gym"]["hops"]) - {"seed"} == {"model", "verify"}  # seeded until the server said: no need
        assert one["_gym"]["tokens"] == {"input": 7, "output": 5}  # of the policy; the judge's are in its evaluation
    assert Counter(asked.body["model"] for asked in stack.judge.asked) == {"judge": 8}
    assert {asked.body["model"] for asked in stack.policy.asked} == {"policy"}


async def test_a_judge_that_is_asked_again_and_answers_costs_nothing(stack: Stack) -> None:
    stack.judge.failures = [Failure(500, {"error": {"message": "hiccup"}})]
    rollouts, failures = await stack.collect(AGENTS[:1], rows=2)
    assert ([one["reward"] for one in by_index(rollouts)], failures) == ([0.0, 1.0], [])
    assert len(stack.judge.asked) == 3


async def test_a_judge_that_fails_is_a_failure_of_kind_judge_and_no_reward(stack: Stack) -> None:
    stack.judge.failures = [Failure(500, {"error": {"message": "out of order"}}) for _ in range(1000)]
    try:
        rollouts, failures = await stack.collect(AGENTS, rows=2)
    finally:
        stack.judge.failures.clear()
    assert rollouts == []
    assert len(failures) == 4
    assert {(one["kind"], one["server"], one["retryable"]) for one in failures} == {("judge", "judge_model", True)}
    assert all("out of order" in one["message"] and "reward" not in one for one in failures)
    assert all(set(one["_gym"]["hops"]) - {"seed"} == {"model", "verify"} for one in failures)


async def test_a_judge_that_does_not_answer_costs_its_deadline(stack: Stack) -> None:
    stack.judge.open.clear()
    try:
        rollouts, failures = await stack.collect(AGENTS, "--timeout", "12", rows=2)
    finally:
        stack.judge.open.set()
    assert rollouts == []
    assert {(one["kind"], one["server"]) for one in failures} == {("timeout", "judge_model")}
    assert len(failures) == 4
    for one in failures:
        assert max(one["_gym"]["hops"], key=one["_gym"]["hops"].__getitem__) == "verify"


async def test_a_judge_whose_provider_says_429_is_asked_less_and_no_rollout_fails(stack: Stack) -> None:
    slow = {"retry-after": "0.05"}
    stack.judge.failures = [Failure(429, {"error": {"message": "slow down"}}, slow) for _ in range(12)]
    rollouts, failures = await stack.collect(AGENTS, rows=8)
    assert failures == []
    assert Counter(one["reward"] for one in rollouts) == {0.0: 8, 1.0: 8}
    assert {one["_gym"]["attempt"] for one in rollouts} == {1}
    assert len(stack.judge.asked) == 16 + 12
    health = await stack.judge_health()
    assert (health["throttled"], health["last_error"]) == (12, "")
    assert 1 <= health["at_once"] < 16


async def test_a_judge_that_has_gone_is_a_failure_of_kind_judge_and_no_reward(stack: Stack) -> None:
    await stack.close_judge.aclose()
    rollouts, failures = await stack.collect(AGENTS[1:], rows=2)
    assert rollouts == []
    assert {(one["kind"], one["server"], one["retryable"]) for one in failures} == {("judge", "judge_model", True)}
    assert all("cannot reach the model" in one["message"] for one in failures)


def by_index(rollouts: list[Body]) -> list[Body]:
    return sorted(rollouts, key=lambda one: int(one["_ng_task_index"]))
