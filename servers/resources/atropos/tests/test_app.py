"""Environments of the real atroposlib: played by a lent policy, replayed, and whatever they do wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import pytest
from app import Atropos
from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig, ScoredDataGroup, ScoredDataItem
from generate import AtroposRows
from item_codec import read_item, write_item
from loading import find_environment, load_environment

from gym.errors import UserError
from gym.server import Model
from gym.server.fuzz import fuzz_verify
from gym.server.generating import generate, prove
from gym.server.testing import Caller, Rows, running
from gym.wire.items import message, response

FIELDS: dict[str, Any] = {"environment": "bisection:Bisection"}
HERE = {"environment": f"{__name__}:Odd"}
Json = dict[str, Any]


class OddConfig(BaseEnvConfig):  # type: ignore[misc]
    does: str = "scores"


class Odd(BaseEnv):  # type: ignore[misc]
    """Groups of its own, as most environments of Atropos have them, and every way to be wrong."""

    env_config_cls = OddConfig

    @classmethod
    def config_init(cls) -> tuple[OddConfig, list[APIServerConfig]]:
        return OddConfig(group_size=8, use_wandb=True), []

    async def setup(self) -> None:
        self.next = 0

    async def get_next_item(self) -> Any:
        self.next += 1
        return (frozenset({("role", "user")}), self.next)

    async def evaluate(self, *_: Any, **__: Any) -> None:
        return None

    async def collect_trajectories(self, item: Any) -> tuple[Any, list[Any]]:
        if self.config.does == "nothing":
            return None, []
        async with self.server.managed_server(tokenizer=self.tokenizer) as managed:
            asked = [{"role": "user", "content": str(item)}]
            replies = await managed.chat_completion(messages=asked, n=self.config.group_size)
        text = replies.choices[0].message.content
        wrong: dict[str, Any] = {"nan": float("nan"), "words": "1", "none": None, "two": [1.0, 0.0]}
        group = ScoredDataGroup(tokens=[], masks=[], scores=[])
        if self.config.does == "raises":
            raise IndexError(text[99])
        if self.config.does == "odd":
            return ["odd"], []
        if self.config.does in ("completes", "asks again"):
            with suppress(Exception):  # as many environments do
                await (self.server.completion(prompt="Once") if self.config.does == "completes" else self.ask_wrongly())
        if self.config.does != "drops":
            scores = wrong.get(self.config.does, float(text == "yes"))
            group["scores"].extend(scores if isinstance(scores, list) else [scores])
        return (None if self.config.does in ("same", "drops") else group), []

    async def ask_wrongly(self) -> None:
        await self.server.chat_completion(messages=[])


class Silent(Odd):
    async def collect_trajectory(self, item: Any) -> tuple[ScoredDataItem | None, list[Any]]:
        await self.server.chat_completion(messages=[{"role": "user", "content": "?"}])
        return None, []

    collect_trajectories = BaseEnv.collect_trajectories


def halving(params: Json) -> str:
    """Guesses by halves, as the messages lead it."""
    low, high, guess = 1, 200, 100
    for item in params["input"]:
        text = item["content"] if isinstance(item["content"], str) else item["content"][0]["text"]
        if text == "My number is higher.":
            low = guess + 1
        elif text == "My number is lower.":
            high = guess - 1
        guess = (low + high) // 2
    return f"<guess>{guess}</guess>"


@asynccontextmanager
async def model_saying(say: Callable[[Json], str]) -> AsyncIterator[str]:
    class SayingModel(Model):
        async def respond(self, params: Json) -> Json:
            return response([message(say(params))], model="policy")

    async with running(SayingModel.app({}, name="policy_model")) as url:
        yield url


async def play(fields: Json, item: Any, say: Callable[[Json], str]) -> Json:
    lent = {"key": "none", "model": "policy"}
    async with model_saying(say) as url, running(Atropos.app(fields, name="atropos")) as own, Caller(own) as caller:
        row = {"responses_create_params": {"input": []}, "item": item, "play": {**lent, "base_url": f"{url}/v1"}}
        body: Json = (await caller.post("/play/row", row)).body
        return body


async def test_a_game_of_several_turns_is_played_and_scored() -> None:
    item = {"secret": 137, "highest": 200, "guesses": 8}
    assert await play(FIELDS, item, halving) == {"reward": 1.0}
    assert await play(FIELDS, {**item, "guesses": 2}, halving) == {"reward": 0.0}
    assert await play(FIELDS, item, lambda _: "I do not know.") == {"reward": 0.0}


@pytest.mark.parametrize(
    ("does", "say", "verdict"),
    [
        ("scores", "yes", {"reward": 1.0}),
        ("same", "yes", {"reward": 1.0, "dropped": True}),
        ("same", "no", {"reward": 0.0, "dropped": True}),
    ],
)
async def test_a_group_of_one_is_scored_though_its_environment_drops_it(does: str, say: str, verdict: Json) -> None:
    assert await play({**HERE, "config": {"does": does}}, 1, lambda _: say) == verdict


@pytest.mark.parametrize("name", ["Odd", "Silent"])
async def test_a_trajectory_that_is_dropped_without_a_score_is_worth_nothing(name: str) -> None:
    reply = await play({"environment": f"{__name__}:{name}", "config": {"does": "drops"}}, 1, lambda _: "yes")
    assert (reply["reward"], "without a score" in reply["reason"]) == (0.0, True)


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("nan", "returned the reward nan"),
        ("words", "returned the reward '1'"),
        ("none", "returned the reward None"),
        ("two", "returned 2 scores"),
        ("odd", "a ScoredDataItem or a ScoredDataGroup is needed"),
        ("raises", "IndexError"),
        ("completes", "completions of a prompt"),
        ("asks again", "the policy did not answer"),
        ("nothing", "asked the policy nothing"),
    ],
)
async def test_what_the_environment_does_wrong_is_a_failure(does: str, said: str) -> None:
    error = (await play({**HERE, "config": {"does": does}}, 1, lambda _: "yes"))["error"]
    assert (error["kind"], said in error["message"]) == ("resources", True), error


async def test_an_item_that_the_environment_cannot_use_is_the_rows_fault() -> None:
    error = (await play(FIELDS, [1], halving))["error"]
    assert (error["kind"], "before it asked the policy" in error["message"]) == ("row", True), error


async def test_an_error_that_is_said_to_be_the_policys_is_worth_nothing() -> None:
    reply = await play({**HERE, "config": {"does": "raises"}, "policy_errors": ["LookupError"]}, 1, lambda _: "")
    assert reply["reward"] == 0.0
    assert "IndexError" in reply["reason"]


async def test_a_rollout_is_scored_again_from_its_replies() -> None:
    row = {"responses_create_params": {"input": []}, "item": {"secret": 137, "highest": 200, "guesses": 8}}
    said = [message(f"<guess>{guess}</guess>") for guess in (100, 150, 137)]
    async with running(Atropos.app(FIELDS, name="atropos")) as url, Caller(url) as caller:
        assert (await caller.get("/reverify_mode")).body == "stateless"
        full = (await caller.post("/verify", {**row, "response": response(said, model="m")})).body
        cut = (await caller.post("/verify", {**row, "response": response(said[:2], model="m")})).body
    assert full["reward"] == 1.0
    assert (cut["reward"], cut["reason"]) == (0.0, "the rollout ends before the environment has scored it")
    chancy = {**FIELDS, "repeatable": False}
    async with running(Atropos.app(chancy, name="atropos")) as url, Caller(url) as caller:
        assert (await caller.get("/reverify_mode")).body == "unsupported"
        refused = (await caller.post("/verify", {**row, "response": response(said, model="m")})).body
    assert "play_agent" in refused["error"]["message"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no_such_package.env:Env", "No module named 'no_such_package' (Python 3."),
        ("bisection:Bisections", "no BaseEnv"),
    ],
)
def test_an_environment_that_is_not_there_says_what_to_name(path: str, said: str) -> None:
    with pytest.raises(UserError, match="environment: ") as raised:
        find_environment(path, [])
    assert said in str(raised.value)


async def test_a_setting_that_cannot_be_is_named() -> None:
    with pytest.raises(UserError, match="difficulty"):
        await load_environment("bisection:Bisection", {"difficulty": "simple"}, [])
    with pytest.raises(UserError, match="nowhere is not a folder"):
        await load_environment("bisection:Bisection", {}, ["nowhere"])


async def test_items_of_any_environment_become_rows() -> None:
    made = await load_environment(f"{__name__}:Odd", {}, [])
    item = await made.get_next_item()
    assert made.config.group_size == 1
    assert read_item(write_item(item)) == item
    with pytest.raises(TypeError, match="object cannot be part of a row"):
        write_item({"a": [object()]})


async def test_made_rows_are_paid_for_their_number_and_not_for_none() -> None:
    for difficulty in AtroposRows.difficulties:
        made = generate(AtroposRows(), 8, seed=Random(3).randrange(9), split="train", difficulty=difficulty)
        proof = await prove(Atropos.app(FIELDS, name="atropos"), made, fields=FIELDS, steps=False)
        assert (proof.rows, proof.unpaid, proof.paid_empty) == (8, [], [])


def test_hostile_texts_are_rewards(rows: Rows) -> None:
    texts = ("<guess>", "<guess>1e3</guess>", "<guess>" + "9" * 400 + "</guess>", "<guess>٣</guess>")
    fuzz_verify(Atropos.app(FIELDS, name="atropos"), rows, texts=texts, examples=40)
