"""The runtime of rLLM's remote engine. rLLM itself is stood in for by the two types that the runtime makes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gym.errors import UserError
from gym.trainers.carried_rows import pack_row
from gym.trainers.rllm import GymRuntime
from tests.support.agents import FakeAgent, fake_agent
from tests.support.fake_rllm import write_rllm


@dataclass
class Submission:
    task: dict[str, Any]
    session_id: str
    task_id: str = "task"

    @property
    def inference_url(self) -> str:
        return f"http://127.0.0.1:1/sessions/{self.session_id}/v1"


@pytest.fixture(autouse=True)
def rllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rllm(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture(scope="module")
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as one:
        yield one


def task(**fake: Any) -> dict[str, Any]:
    return pack_row({"responses_create_params": {"input": "What?"}, "fake": fake})


async def test_each_task_asks_its_own_session_and_results_keep_the_order(agent: FakeAgent) -> None:
    submissions = [Submission(task(extra={"reward": place}, delay=0.2 - place / 10), f"s{place}") for place in range(3)]
    runtime = GymRuntime(agent.url, model="policy")
    runtime.initialize()
    found = await runtime.execute_tasks(submissions, timeout=60.0)
    runtime.shutdown()
    assert [(one.finished, one.session_id, one.task_id, one.reward) for one in found] == [
        (True, f"s{place}", "task", float(place)) for place in range(3)
    ]
    assert {one.termination_reason.name for one in found} == {"ENV_DONE"}
    assert [one.raw_result["policy_base_url"] for one in found] == [one.inference_url for one in submissions]
    assert {one.raw_result["policy_model_name"] for one in found} == {"policy"}


async def test_a_failure_is_not_finished_has_its_error_and_no_reward_and_the_others_go_on(agent: FakeAgent) -> None:
    lost = {"error": {"kind": "sandbox", "message": "the sandbox is gone", "retryable": True}}
    submissions = [Submission(task(fail_times=-1, body=lost), "s0"), Submission(task(), "s1")]
    before = agent.stats()["runs"]
    failed, fine = await GymRuntime(agent.url).execute_tasks(submissions)
    assert (failed.finished, failed.reward, failed.termination_reason.name) == (False, None, "ERROR")
    assert "the sandbox is gone" in failed.error
    assert failed.raw_result["kind"] == "sandbox"
    assert (fine.finished, fine.reward) == (True, 1.0)
    assert agent.stats()["runs"] == before + 2  # a second attempt would stand in the traces of the same session


async def test_what_takes_longer_than_the_session_is_a_timeout(agent: FakeAgent) -> None:
    (found,) = await GymRuntime(agent.url).execute_tasks([Submission(task(delay=60), "s0")], timeout=0.1)
    assert (found.finished, found.reward, found.termination_reason.name) == (False, None, "TIMEOUT")


async def test_a_stack_that_does_not_answer_is_a_failure_of_each_task() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (found,) = await GymRuntime(f"http://127.0.0.1:{port}").execute_tasks([Submission(task(), "s0")])
    assert (found.finished, found.reward, found.termination_reason.name) == (False, None, "ERROR")


async def test_what_the_user_must_fix_is_raised_and_not_made_a_failure_of_every_task(agent: FakeAgent) -> None:
    with pytest.raises(UserError, match="no agent 'missing'"):
        await GymRuntime(agent.url, agent="missing").execute_tasks([Submission(task(), "s0")])
    with pytest.raises(UserError, match="pack_row"):
        await GymRuntime(agent.url).execute_tasks([Submission({"question": "What?"}, "s0")])
