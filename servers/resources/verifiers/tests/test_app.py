"""The real package between an agent and a model on sockets: plays, verdicts, failures, what it refuses to start."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from app import Verifiers
from generate import TasksetRows

from gym.errors import UserError
from gym.server.generating import generate
from gym.server.testing import Caller, running
from gym.server.testing.plays import Say, play_stack, says
from gym.wire import items
from gym.wire.failures import RolloutError

HERE = Path(__file__).parents[1]
PLAY_AGENT = HERE.parents[1] / "agents" / "play_agent"
OWN = {"environment": {"taskset": {"id": "letters_and_sums"}}}
TASKSET = """
import verifiers.v1 as vf

class Data(vf.TaskData):
    wanted: str = "yes"

class WantedTask(vf.Task[Data, vf.State, vf.TaskConfig]):
    @vf.reward(weight=0.5)
    async def right(self, trace: vf.Trace) -> float:
        {body}

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        return trace.num_turns

class WantedTaskset(vf.Taskset[WantedTask, vf.TasksetConfig]):
    def load(self):
        yield WantedTask(Data(prompt="Say yes.", system_prompt="Be short."), self.config.task)

__all__ = ["WantedTaskset"]
"""
PLAYED = """
class Seats(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()

class WantedEnv(vf.Env[Seats]):
    async def run(self, task, agents):
        async with agents.player.interaction(task) as talk:
            first = await talk.turn()
            second = await talk.turn("Say it again.")
        talk.trace.record_reward("both", float(first.last_reply == second.last_reply == "yes"))

__all__ = ["WantedTaskset", "WantedEnv"]
"""
TOOLS = '''
class Lookup(vf.Toolset[vf.ToolsetConfig, vf.State]):
    @vf.tool
    async def word(self) -> str:
        """The word to say."""
        return "yes"

WantedTask.toolsets = classmethod(lambda cls, config: [Lookup(vf.ToolsetConfig())])
if __name__ == "__main__":
    Lookup.run()
'''


def stack(fields: dict[str, Any], say: Say, **agent: Any) -> AbstractAsyncContextManager[Caller]:
    return play_stack(Verifiers.app(fields, name="env"), PLAY_AGENT, say, **agent)


@pytest.fixture
def taskset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[dict[str, Any], dict[str, Any]]]:
    """A package of tasks beside the server, as pip would have installed it: the fields, and a row of it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # a toolset is a process of its own

    def make(body: str = 'return float(trace.last_reply == "yes")', more: str = "", **seat: Any) -> Any:
        name = f"wanted_{len(list(tmp_path.iterdir()))}_{tmp_path.name.replace('-', '_')}"
        (tmp_path / f"{name}.py").write_text(TASKSET.replace("{body}", body) + more)
        row = {"responses_create_params": {"input": "Say yes."}, "taskset": name}
        row["task"] = {"prompt": "Say yes.", "system_prompt": "Be short."}
        return {"environment": {"taskset": {"id": name}, **seat}}, row

    return make


def row_of(number: int = 0) -> dict[str, Any]:
    row: dict[str, Any] = json.loads((HERE / "data" / "example.jsonl").read_text().splitlines()[number])
    return row


async def test_the_package_plays_and_judges_and_the_rollout_has_its_scores_and_token_ids() -> None:
    row = row_of()
    async with stack(OWN, says(f"\\boxed{{{row['task']['answer']}}}")) as caller:
        reply = await caller.post("/run", row)
    assert reply.status == 200, reply.body
    body = reply.body
    assert (body["reward"], body["scores"]) == (1.0, {"correct": {"score": 1.0, "weight": 1.0}})
    assert (body["metrics"], body["stop_condition"]) == ({"boxed": 1.0}, "agent_completed")
    (said,) = body["response"]["output"]
    assert (said["prompt_token_ids"], said["generation_token_ids"]) == ([0], [1])
    assert (body["task"], body["taskset"]) == (row["task"], row["taskset"])
    assert "play" not in body


async def test_what_it_judged_itself_is_worth_the_same_when_it_is_verified_afterwards() -> None:
    async with stack(OWN, says("\\boxed{no idea}")) as caller:
        played = (await caller.post("/run", row_of(1))).body
    async with running(Verifiers.app(OWN, name="env")) as url, Caller(url) as env:
        assert (await env.get("/reverify_mode")).body == "stateless"
        verified = await env.post("/verify", {**row_of(1), "response": played["response"]})
    assert verified.status == 200, verified.body
    assert (verified.body["reward"], verified.body["scores"]) == (played["reward"], played["scores"])


async def test_an_environment_with_a_loop_of_its_own_talks_twice_in_one_sequence(taskset: Any) -> None:
    fields, row = taskset(more=PLAYED)
    async with stack(fields, says("yes")) as caller:
        body = (await caller.post("/run", row)).body
    assert body["reward"] == 1.5, body  # `both`, and half of `right`
    assert body["scores"]["right"] == {"score": 1.0, "weight": 0.5}
    assert body["metrics"] == {"turns": 2.0}
    assert [one["role"] for one in body["response"]["output"]] == ["assistant", "user", "assistant"]
    assert [one["role"] for one in body["responses_create_params"]["input"]] == ["system", "user"]
    async with running(Verifiers.app(fields, name="env")) as url, Caller(url) as env:
        refused = await env.post("/verify", {**row, "response": body["response"]})
        cut = await env.post("/verify", {**row, "response": {**body["response"], "truncated_by": "max_steps"}})
    assert (refused.status, refused.body["error"]["kind"]) == (500, "resources")
    assert "play_agent" in refused.body["error"]["message"]
    assert (cut.body["reward"], "max_steps" in cut.body["reason"]) == (0.0, True)


def looks_up(params: dict[str, Any]) -> dict[str, Any]:
    outputs = [one["output"] for one in params["input"] if one.get("type") == "function_call_output"]
    name = params["tools"][0]["name"]
    said = items.message(str(outputs[-1])) if outputs else items.function_call(name, "{}", call_id="c1")
    return items.response([said], model="m", usage=items.text_usage(10, 5))


@pytest.mark.filterwarnings("ignore:The .initial. parameter is deprecated")  # of tenacity, for the package
async def test_a_toolset_of_the_taskset_is_called_by_the_policy(taskset: Any) -> None:
    fields, row = taskset(more=TOOLS)
    async with stack(fields, looks_up) as caller:
        reply = await caller.post("/run", row)
    assert reply.status == 200, reply.body
    assert reply.body["reward"] == 0.5, reply.body
    assert [one["type"] for one in reply.body["response"]["output"]] == [
        "function_call",
        "function_call_output",
        "message",
    ]


@pytest.mark.parametrize("body", ['raise LookupError("no file")', 'return float("nan")', 'return "much"'])
async def test_a_function_that_is_broken_is_a_failure_and_never_a_reward(taskset: Any, body: str) -> None:
    fields, row = taskset(body)
    async with stack(fields, says("yes")) as caller:
        reply = await caller.post("/run", row)
    assert reply.status >= 500, reply.body
    assert reply.body["error"]["kind"] == "resources"
    assert reply.body["error"]["retryable"] is False


async def test_an_answer_that_a_function_cannot_read_is_worth_nothing(taskset: Any) -> None:
    fields, row = taskset("return float(int(trace.last_reply or 1) > 0)")
    async with stack(fields, says("yes")) as caller:
        reply = await caller.post("/run", row)
    assert reply.status == 200, reply.body
    assert reply.body["reward"] == 0.0
    assert "invalid literal" in reply.body["reason"]


async def test_a_model_that_is_out_of_order_is_its_failure() -> None:
    def breaks(_: dict[str, Any]) -> dict[str, Any]:
        raise RolloutError("model", "out of order")

    async with stack(OWN, breaks) as caller:
        reply = await caller.post("/run", row_of())
    assert (reply.status, reply.body["error"]["kind"]) == (502, "model")


async def test_a_spent_budget_ends_the_play_and_it_is_judged_by_what_was_said(taskset: Any) -> None:
    fields, row = taskset(more=PLAYED)
    async with stack(fields, says("yes"), max_steps=1) as caller:
        body = (await caller.post("/run", row)).body
    assert body["response"]["truncated_by"] == "max_steps"
    assert body["reward"] == 0.0
    assert "max_steps" in body["reason"]


@pytest.mark.parametrize(
    ("change", "said"),
    [({"taskset": "gsm8k"}, "gsm8k"), ({"task": {"prompt": "?"}}, "task.answer"), ({"task": None}, "task")],
)
async def test_a_row_that_is_not_of_this_taskset_says_so(change: dict[str, Any], said: str) -> None:
    async with stack(OWN, says("?")) as caller:
        reply = await caller.post("/run", row_of() | change)
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert said in reply.body["error"]["message"]


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "which taskset"),
        ({"taskset": {"id": "no_such_taskset"}}, "requirements.txt"),
        ({"taskset": {"id": "textarena", "game": "Wordle-v0"}}, r"verifiers\[ta\]"),
        ({"taskset": {"id": "letters_and_sums", "task_count": 3}}, "task_count"),
        ({"taskset": {"id": "letters_and_sums"}, "agent": {"harness": {"id": "bash"}}}, "runs the policy's commands"),
    ],
)
async def test_what_cannot_be_played_does_not_start(environment: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        await Verifiers.app({"environment": environment}, name="env").start()


async def test_another_line_of_the_package_names_the_server_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasksets.importlib.metadata.version", lambda _: "0.3.1")
    with pytest.raises(UserError, match=r"0\.3\.1.*\n?.*verifiers_legacy"):
        await Verifiers.app(OWN, name="env").start()


def test_rows_are_made_of_the_tasks_that_are_named() -> None:
    made = list(generate(TasksetRows(), 4, seed=1, split="train", difficulty="any", tasks=["sum"]))
    assert {one.row["task"]["name"] for one in made} == {"sum"}
    assert all(one.answer for one in made)
