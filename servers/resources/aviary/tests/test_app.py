"""aviary: the package's own dummy, and environments that break."""

from __future__ import annotations

import asyncio
import math
from typing import Any, ClassVar

import pytest
from app import Aviary
from aviary.core import TASK_DATASET_REGISTRY, DummyEnv, TaskDataset, Tool
from generate import AviaryRows

from gym.errors import UserError
from gym.server import ServerApp
from gym.server.generating import generate, prove
from gym.server.testing import Caller, running
from gym.wire.items import message, response

ROW = {"responses_create_params": {"input": [{"role": "system", "content": "Use the tools."}]}}
SAID = {"response": response([message("done")], model="m")}


class Broken(DummyEnv):
    """What is wrong with it is its task."""

    wiki_cache: ClassVar[dict[str, str]] = {}

    async def reset(self) -> Any:
        if self.task == "reset":
            raise RuntimeError("no reset today")
        return await super().reset()

    async def step(self, action: Any) -> Any:
        if self.task == "step":
            raise RuntimeError("no step today")
        if self.task == "never":
            await asyncio.Event().wait()
        messages, _, done, truncated = await super().step(action)
        return messages, {"nan": math.nan, "text": "much"}.get(str(self.task), 0.5), done, truncated


class BrokenTasks(TaskDataset[Broken]):
    def get_new_env_by_args(self, **kwargs: Any) -> Broken:
        return Broken(**kwargs)


class Powers(DummyEnv):
    """A tool that costs what its arguments say."""

    async def reset(self) -> Any:
        shown, tools = await super().reset()
        self.tools = [*tools, Tool.from_function(self.power)]
        return shown, self.tools

    def power(self, base: int, exponent: int) -> str:
        """The last digit of a power.

        Args:
            base: A number.
            exponent: Another one.
        """
        return str(base**exponent % 10)


class PowerTasks(TaskDataset[Powers]):
    def get_new_env(self) -> Powers:
        return Powers()


class UnreachedTasks(TaskDataset[Powers]):
    def __init__(self) -> None:
        raise ConnectionError("the hub is not reached")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> ServerApp:
    monkeypatch.setitem(TASK_DATASET_REGISTRY, "broken", (__name__, "BrokenTasks"))
    return Aviary.app({"dataset": "broken", "call_seconds": 0.2}, name="aviary")


async def test_tools_and_messages_are_those_of_reset_and_done_ends_the_rollout() -> None:
    async with running(Aviary.app({"rewards": "final"}, name="aviary")) as url, Caller(url) as caller:
        seeded = (await caller.post("/seed_session", ROW)).body
        names = [one["name"] for one in seeded["tools"]]
        assert names == ["print_story", "cast_float", "cast_int", "get_random_int"]
        assert seeded["tools"][0]["parameters"]["required"] == ["story"]
        assert seeded["observation"] == [
            {"type": "message", "role": "user", "content": "Write a 5 word story via print_story"}
        ]
        assert (await caller.post("/cast_float", {"x": "2.5"})).body == 2.5
        answered = await caller.post("/print_story", {"story": "five words are enough here"})
        assert (answered.body, answered.reply.header(b"x-gym-episode-over")) == (None, b"1")
        assert "over" in (await caller.post("/cast_float", {"x": "1"})).body["error"]
        verified = (await caller.post("/verify", ROW | SAID)).body
        assert (verified["reward"], verified["num_calls"], verified["terminated"]) == (1.0, 2, True)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("cast_float", {"x": "abc"}), ("cast_float", {}), ("cast_int", {"x": [1]}), ("print_story", {"other": 1})],
)
async def test_arguments_that_cannot_be_are_the_models_to_read(tool: str, arguments: dict[str, Any]) -> None:
    async with running(Aviary.app({}, name="aviary")) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        reply = await caller.post(f"/{tool}", arguments)
        assert (reply.status, list(reply.body)) == (200, ["error"])
        assert (await caller.post("/verify", ROW | SAID)).body["reward"] == 0.0


@pytest.mark.parametrize(
    ("task", "kind"), [("step", "resources"), ("nan", "resources"), ("text", "resources"), ("never", "timeout")]
)
async def test_an_environment_that_breaks_is_a_failure_and_no_reward(broken: ServerApp, task: str, kind: str) -> None:
    async with running(broken) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW | {"task_arguments": {"task": task}})
        reply = await caller.post("/cast_float", {"x": "1"})
        assert (reply.status >= 500, reply.body["error"]["kind"]) == (True, kind)


async def test_arguments_that_make_a_tool_cost_too_much_end_their_own_rollout_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(TASK_DATASET_REGISTRY, "powers", (__name__, "PowerTasks"))
    app = Aviary.app({"dataset": "powers", "cpu_seconds": 0.3}, name="aviary")
    async with running(app) as url, Caller(url) as caller, Caller(url) as other:
        for one in (caller, other):
            await one.post("/seed_session", ROW)
        answered = await caller.post("/power", {"base": 9, "exponent": 9**9})
        assert (answered.status, answered.reply.header(b"x-gym-episode-over")) == (200, b"1")
        assert "The episode is over" in answered.body["error"]
        verified = (await caller.post("/verify", ROW | SAID)).body
        assert (verified["reward"], "0.3 s of CPU time" in verified["reason"]) == (0.0, True)
        assert (await other.post("/power", {"base": 9, "exponent": 9})).body == 9


async def test_an_environment_that_breaks_in_reset_is_a_failure(broken: ServerApp) -> None:
    async with running(broken) as url, Caller(url) as caller:
        reply = await caller.post("/seed_session", ROW | {"task_arguments": {"task": "reset"}})
    assert reply.body["error"]["kind"] == "resources"
    assert "no reset today" in reply.body["error"]["message"]


async def test_a_row_of_a_task_that_is_not_there_is_refused() -> None:
    async with running(Aviary.app({}, name="aviary")) as url, Caller(url) as caller:
        reply = await caller.post("/seed_session", ROW | {"task_index": 3})
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")


@pytest.mark.parametrize(("dataset", "words"), [("gsm8k", "aviary.gsm8k"), ("nothing", "Unknown environment name")])
async def test_a_data_set_whose_package_is_missing_is_reported_at_the_start(dataset: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        await Aviary.app({"dataset": dataset}, name="aviary").start()
    assert words in str(caught.value)


async def test_data_that_cannot_be_fetched_are_reported_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASK_DATASET_REGISTRY, "unreached", (__name__, "UnreachedTasks"))
    with pytest.raises(UserError, match="the data of 'unreached' cannot be had: the hub is not reached"):
        await Aviary.app({"dataset": "unreached"}, name="aviary").start()


async def test_made_rows_are_paid_for_a_story_and_not_for_none(app: ServerApp) -> None:
    made = generate(AviaryRows(), 5, seed=1, split="train", difficulty="any")
    assert (await prove(app, made, fields={"rewards": "final"})).holds


async def test_the_pages_that_a_library_keeps_for_all_rollouts_are_as_many_as_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(TASK_DATASET_REGISTRY, "broken", (__name__, "BrokenTasks"))
    monkeypatch.setattr(Broken, "wiki_cache", {})
    app = Aviary.app({"dataset": "broken", "cache_characters": 10}, name="tasks")
    async with running(app) as url, Caller(url) as caller:
        assert (await caller.post("/seed_session", {**ROW, "task_arguments": {}})).status == 200
        for name, length in (("one", 4), ("two", 4), ("three", 4), ("two", 6), ("large", 11), ("four", 10)):
            Broken.wiki_cache[name] = name[0] * length
            assert sum(map(len, Broken.wiki_cache.values())) <= 10
    assert Broken.wiki_cache == {"four": "f" * 10}
