"""The real package of the 0.3 line between an agent and a model on sockets: plays, verdicts, failures."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from app import VerifiersLegacy
from generate import ExampleRows

from gym.errors import UserError
from gym.server.generating import generate
from gym.server.testing import Caller, running
from gym.server.testing.plays import Say, play_stack, says
from gym.wire import items
from gym.wire.failures import RolloutError

HERE = Path(__file__).parents[1]
PLAY_AGENT = HERE.parents[1] / "agents" / "play_agent"
OWN = {"environment": "letters_and_sums"}
ENVIRONMENT = '''
import verifiers as vf
from datasets import Dataset

def {name}(completion, answer, **_):
    {body}

def word() -> str:
    """The word to say."""
    return "yes"

class Twice(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **_):
        return [vf.UserMessage(content="Say it again.")]

def load_environment():
    data = Dataset.from_list([{"question": "Say yes.", "answer": "yes"}])
    rubric = vf.Rubric(funcs=[right], weights=[0.5])
    return {make}
'''


def stack(fields: dict[str, Any], say: Say, **agent: Any) -> AbstractAsyncContextManager[Caller]:
    return play_stack(VerifiersLegacy.app(fields, name="env"), PLAY_AGENT, say, **agent)


SINGLE = "vf.SingleTurnEnv(dataset=data, rubric=rubric)"
TWICE = "Twice(dataset=data, rubric=rubric, max_turns=2)"
TOOL = "vf.ToolEnv(dataset=data, rubric=rubric, tools=[word], max_turns=4)"
RIGHT = 'return float(completion[-1]["content"] == answer)'


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[dict[str, Any], Any]]:
    """A package with `load_environment`, as pip would have installed it: the fields, and a row of it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(make: str = SINGLE, body: str = RIGHT) -> Any:
        name = f"wanted_{tmp_path.name.replace('-', '_')}"
        text = ENVIRONMENT.replace("{name}", "right").replace("{body}", body).replace("{make}", make)
        (tmp_path / f"{name}.py").write_text(text)
        asked = [{"role": "user", "content": "Say yes."}]
        example = {"prompt": asked, "answer": "yes", "example_id": 0}
        row = {"responses_create_params": {"input": asked}, "environment": name, "example": example}
        return {"environment": name}, row

    return make


def row_of(number: int = 0) -> dict[str, Any]:
    row: dict[str, Any] = json.loads((HERE / "data" / "example.jsonl").read_text().splitlines()[number])
    return row


async def test_the_package_plays_and_judges_and_the_rollout_has_its_metrics_and_token_ids() -> None:
    row = row_of()
    async with stack(OWN, says(f"<answer>{row['example']['answer']}</answer>")) as caller:
        reply = await caller.post("/run", row)
    assert reply.status == 200, reply.body
    body = reply.body
    assert body["reward"] == body["metrics"]["correct"] == 1.0
    assert (body["metrics"]["num_turns"], body["stop_condition"]) == (1.0, "max_turns_reached")
    (said,) = body["response"]["output"]
    assert (said["prompt_token_ids"], said["generation_token_ids"]) == ([0, 1], [2])
    async with running(VerifiersLegacy.app(OWN, name="env")) as url, Caller(url) as env:
        assert (await env.get("/reverify_mode")).body == "stateless"
        verified = await env.post("/verify", {**row, "response": body["response"]})
    assert verified.status == 200, verified.body
    assert (verified.body["reward"], verified.body["metrics"]) == (1.0, body["metrics"])


async def test_an_environment_of_several_turns_answers_the_policy(environment: Any) -> None:
    fields, row = environment(TWICE)
    async with stack(fields, says("yes")) as caller:
        body = (await caller.post("/run", row)).body
    assert body["reward"] == 0.5, body
    assert [one["role"] for one in body["response"]["output"]] == ["assistant", "user", "assistant"]


def looks_up(params: dict[str, Any]) -> dict[str, Any]:
    outputs = [one["output"] for one in params["input"] if one.get("type") == "function_call_output"]
    said = items.message(str(outputs[-1])) if outputs else items.function_call("word", "{}", call_id="c1")
    return items.response([said], model="m", usage=items.text_usage(10, 5))


async def test_tools_of_the_environment_are_called_by_the_policy(environment: Any) -> None:
    fields, row = environment(TOOL)
    async with stack(fields, looks_up) as caller:
        body = (await caller.post("/run", row)).body
    assert body["reward"] == 0.5, body
    kinds = [one["type"] for one in body["response"]["output"]]
    assert kinds == ["function_call", "function_call_output", "message"]


@pytest.mark.parametrize("body", ['raise LookupError("no file")', 'return float("nan")', 'return "much"'])
async def test_a_function_that_is_broken_is_a_failure_and_not_the_packages_zero(environment: Any, body: str) -> None:
    fields, row = environment(SINGLE, body)
    async with stack(fields, says("yes")) as caller:
        reply = await caller.post("/run", row)
    assert reply.status >= 500, reply.body
    assert (reply.body["error"]["kind"], reply.body["error"]["retryable"]) == ("resources", False)


async def test_a_metric_that_is_broken_costs_its_own_number_alone(environment: Any) -> None:
    fields, row = environment("vf.SingleTurnEnv(dataset=data, rubric=vf.Rubric([right, word], [1.0, 0.0]))")
    async with stack(fields, says("yes")) as caller:
        body = (await caller.post("/run", row)).body
    assert (body["reward"], body["metrics"]) == (1.0, {"right": 1.0, "num_turns": 1.0})


async def test_an_answer_that_a_function_cannot_read_is_worth_nothing(environment: Any) -> None:
    fields, row = environment(SINGLE, 'return float(int(completion[-1]["content"] or 1) > 0)')
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


async def test_a_row_that_is_not_of_this_environment_says_so() -> None:
    async with stack(OWN, says("?")) as caller:
        reply = await caller.post("/run", row_of() | {"environment": "gsm8k"})
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert "gsm8k" in reply.body["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"environment": "no_such_environment"}, "requirements.txt"),
        ({"environment": "letters_and_sums", "arguments": {"countt": 3}}, "countt"),
    ],
)
async def test_what_cannot_be_played_does_not_start(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        await VerifiersLegacy.app(fields, name="env").start()


async def test_another_line_of_the_package_names_the_server_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.importlib.metadata.version", lambda _: "0.4.0")
    with pytest.raises(UserError, match="the server verifiers"):
        await VerifiersLegacy.app(OWN, name="env").start()


def test_rows_are_made_of_the_tasks_that_are_named() -> None:
    made = list(generate(ExampleRows(), 3, seed=1, split="train", difficulty="any", tasks=["sum"]))
    assert all("What is" in one.row["responses_create_params"]["input"][-1]["content"] for one in made)
