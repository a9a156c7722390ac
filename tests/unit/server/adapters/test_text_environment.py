"""Games of text over HTTP: actions, what rewards mean, and whose fault it is when the library does not return."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from gym.errors import UserError
from gym.server import Row
from gym.server.adapters.text_environment import TextEnvironment
from gym.server.gymnasium import Step
from gym.server.testing import Caller, running, scripted_judge
from gym.wire import items

ROW = {"responses_create_params": {"input": "play"}, "target": 3}
JSON_NAN = float("nan")


@dataclass
class Countdown:
    left: int
    closed: int = 0
    heard: str = ""

    def close(self) -> None:
        self.closed += 1


class CountdownRow(Row):
    target: int


class CountdownGame(TextEnvironment[Countdown]):
    """Counts down by what is written; the other things it does are what libraries do at their worst."""

    bad_action = (KeyError,)
    made: list[Countdown]

    async def start(self) -> None:
        self.made = []

    def open(self, row: CountdownRow) -> tuple[Countdown, str]:
        self.made.append(Countdown(row.target))
        return self.made[-1], f"{row.target} left"

    def act(self, environment: Countdown, action: str) -> Any:
        if action == "loop" or environment.left == 66:
            while True:
                try:
                    pass
                except Exception:  # noqa: BLE001 (as libraries do)
                    continue
        if action == "raise":
            raise ZeroDivisionError("by the library")
        if action == "exit":
            raise SystemExit(3)
        if action == "nonsense":
            raise KeyError("nonsense")
        if action in ("nan", "text", "none"):
            return Step("odd", {"nan": JSON_NAN, "text": "1", "none": None}[action])  # type: ignore[arg-type]
        if action == "tuple":
            return ("observation", 1.0)
        environment.left -= int(action or 0)
        return Step(f"{environment.left} left", 1.0, terminated=environment.left <= 0)


class Talking(TextEnvironment[Countdown]):
    async def open(self, row: CountdownRow) -> tuple[Countdown, str]:
        return Countdown(row.target), "begin"

    async def act(self, environment: Countdown, action: str) -> Step:
        environment.heard = await self.ask_opponent([{"role": "user", "content": action}])
        return Step(environment.heard, 1.0, terminated=True)


@asynccontextmanager
async def playing(kind: Any = CountdownGame, row: Any = None, **fields: Any) -> AsyncIterator[tuple[Caller, Any]]:
    app = kind.app(fields, name="game")
    async with running(app) as url, Caller(url) as caller:
        begun = await caller.post("/reset", row or ROW)
        assert begun.status == 200, begun.body
        yield caller, app.server


async def act(caller: Caller, text: str, row: Any = None) -> dict[str, Any]:
    reply = await caller.post("/step", {**(row or ROW), "response": {"output": [items.message(text)]}})
    body: dict[str, Any] = reply.body
    return body


def rollout(*texts: str) -> dict[str, Any]:
    output = [item for text in texts for item in (items.message(text), items.message("and?", role="user"))]
    return {**ROW, "response": {"output": output}}


async def test_a_game_is_played_to_its_end_and_let_go_of_once() -> None:
    async with playing() as (caller, server):
        first, last = await act(caller, "1"), await act(caller, "2")
        assert (first["observation"], first["reward"], first["terminated"]) == ("2 left", 1.0, False)
        assert (last["reward"], last["terminated"]) == (1.0, True)
        assert (await caller.post("/step", rollout("1"))).status == 422
        await caller.post("/close")
        assert [one.closed for one in server.made] == [1]


async def test_the_first_observation_stands_behind_the_system_prompt() -> None:
    app = CountdownGame.app({"system_prompt": "Count.", "observation": "You see: {observation}."}, name="game")
    async with running(app) as url, Caller(url) as caller:
        shown = (await caller.post("/reset", ROW)).body["observation"]
        assert [(one["role"], one["content"]) for one in shown] == [("system", "Count."), ("user", "You see: 3 left.")]
        assert (await act(caller, "1"))["observation"] == "You see: 2 left."


async def test_a_reply_without_an_action_is_answered_with_how_to_write_one_and_costs_a_turn() -> None:
    async with playing(action={"take": "tag"}, missing_action_reward=-0.5, max_turns=2) as (caller, server):
        missing = await act(caller, "one, I think")
        assert "between <action> and </action>" in missing["observation"]
        assert (missing["reward"], missing["truncated"], server.made[0].left) == (-0.5, False, 3)
        last = await act(caller, "<action>1</action>")
        assert (last["truncated"], last["info"]) == (True, {"reason": "max_turns"})


async def test_an_action_that_cannot_be_is_an_observation() -> None:
    async with playing() as (caller, _):
        step = await act(caller, "nonsense")
        assert (step["observation"], step["reward"], step["terminated"]) == (
            "That action cannot be: 'nonsense'",
            0,
            False,
        )


@pytest.mark.parametrize(
    ("meaning", "expected"),
    [("per_step", [1.0, 1.0, 1.0]), ("cumulative", [1.0, 0.0, 0.0]), ("final", [0.0, 0.0, 1.0])],
)
async def test_what_rewards_mean_is_configured(meaning: str, expected: list[float]) -> None:
    async with playing(rewards=meaning) as (caller, _):
        assert [(await act(caller, "1"))["reward"] for _ in range(3)] == expected


async def test_a_missing_action_costs_the_same_where_rewards_are_sums() -> None:
    async with playing(action={"take": "tag"}, missing_action_reward=-0.5, rewards="cumulative") as (caller, _):
        said = ("<action>1</action>", "hm", "<action>1</action>")
        assert [(await act(caller, text))["reward"] for text in said] == [1.0, -0.5, 0.0]


async def test_the_last_turn_is_the_final_one_where_the_last_reward_counts() -> None:
    async with playing(rewards="final", max_turns=2) as (caller, _):
        assert [(await act(caller, "1"))["reward"] for _ in range(2)] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("raise", "ZeroDivisionError: by the library (test_text_environment.py:"),
        ("exit", "CountdownGame.act wanted to end the process: SystemExit(3)"),
        ("nan", "returned the reward nan"),
        ("text", "returned the reward '1'"),
        ("none", "returned the reward None"),
        ("tuple", "a Step is needed"),
    ],
)
async def test_what_a_library_does_wrong_is_a_failure_and_no_reward(action: str, said: str) -> None:
    async with playing() as (caller, _):
        error = (await act(caller, action))["error"]
        assert (error["kind"], error["retryable"]) == ("resources", False)
        assert said in error["message"]


async def test_a_session_in_which_an_action_failed_is_not_paid_for_those_before_it() -> None:
    async with running(CountdownGame.app({"act_tool": "act"}, name="game")) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        assert (await caller.post("/act", {"action": "1"})).status == 200
        assert (await caller.post("/act", {"action": "raise"})).body["error"]["kind"] == "resources"
        verified = (await caller.post("/verify", rollout("1"))).body
        assert (verified["error"]["kind"], verified["error"]["retryable"]) == ("resources", False)


async def test_an_action_that_never_ends_gets_nothing_and_ends_the_episode() -> None:
    async with playing(act_seconds=0.3) as (caller, server):
        await act(caller, "1")
        step = await act(caller, "loop")
        assert (step["reward"], step["terminated"], step["info"]["library_error"]) == (0.0, True, "timeout")
        assert "the action 'loop' costs too much" in step["info"]["reason"]
        assert [one.closed for one in server.made] == [1, 1]


async def test_an_environment_that_never_ends_is_a_failure() -> None:
    row = {**ROW, "target": 66}
    async with playing(row=row, act_seconds=0.3) as (caller, _):
        error = (await act(caller, "1", row))["error"]
        assert (error["kind"], error["retryable"]) == ("timeout", True)
        assert (await caller.get("/healthz")).status == 200


async def test_verify_plays_a_rollout_again() -> None:
    async with running(CountdownGame.app({}, name="game")) as url, Caller(url) as caller:
        whole = (await caller.post("/verify", rollout("1", "1", "1"))).body
        assert (whole["reward"], whole["terminated"], whole["num_steps"]) == (3.0, True, 3)
        part = (await caller.post("/verify", rollout("1"))).body
        assert (part["reward"], part["terminated"], part["reason"]) == (
            1.0,
            False,
            "the episode was not played to its end",
        )


async def test_an_agent_that_only_seeds_and_verifies_plays_its_session() -> None:
    app = CountdownGame.app({}, name="game")
    async with running(app) as url, Caller(url) as caller:
        seeded = (await caller.post("/seed_session", ROW)).body
        assert seeded["observation"][0]["content"] == "3 left"
        assert (await caller.post("/verify", rollout("3"))).body["reward"] == 1.0
        assert len(app.server.made) == 1  # type: ignore[union-attr]


async def test_a_tool_for_acting_serves_agents_that_know_no_steps() -> None:
    async with running(CountdownGame.app({"act_tool": "act"}, name="game")) as url, Caller(url) as caller:
        seeded = (await caller.post("/seed_session", ROW)).body
        assert [one["name"] for one in seeded["tools"]] == ["act"]
        once = await caller.post("/act", {"action": "2"})
        assert (once.body, once.reply.header(b"x-gym-episode-over")) == ({"observation": "1 left", "done": False}, None)
        bad = await caller.post("/act", b"no json")
        assert "No action was found" in bad.body["observation"]
        last = await caller.post("/act", {"action": "1"})
        assert (last.body["done"], last.reply.header(b"x-gym-episode-over")) == (True, b"1")
        assert (await caller.post("/act", {"action": "1"})).body["observation"] == "The episode is over."
        assert (await caller.post("/verify", rollout())).body["reward"] == 2.0


def test_a_tool_for_acting_cannot_have_a_name_of_the_contract() -> None:
    with pytest.raises(UserError, match="'verify' cannot be a tool's name"):
        CountdownGame.app({"act_tool": "verify"}, name="game").make(_settings({"act_tool": "verify"}))


def _settings(fields: dict[str, Any]) -> Any:
    from gym.server.config import Settings

    return Settings(name="game", fields=fields)


async def test_an_opponent_is_a_second_model() -> None:
    async with scripted_judge("my move", name="second") as second:
        fields = {"opponent": {"type": "responses_api_models", "name": "second"}}
        app = Talking.app(fields, name="game", document=second.document)
        async with running(app) as url, Caller(url) as caller:
            await caller.post("/reset", ROW)
            assert (await act(caller, "e4"))["observation"] == "my move"
    assert second.prompts == ["e4"]


async def test_without_an_opponent_a_game_for_two_blames_the_row() -> None:
    async with playing(Talking) as (caller, _):
        error = (await act(caller, "e4"))["error"]
        assert error["kind"] == "row"
        assert "opponent: {type: responses_api_models" in error["message"]
