"""user_sim_agent between a policy, a user and a real environment, all on sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from app import UserSimAgent

from gym.errors import UserError
from gym.server import Model, ResourcesServer, VerifyRequest, tool
from gym.server.testing import Caller, running
from gym.wire.failures import RolloutError
from gym.wire.items import function_call, item_text, message, response

pytestmark = pytest.mark.asyncio
USER = {"persona": "A hurried traveller.", "goal": "to book the night train", "opening": "Hello, a ticket please."}
ROW = {"responses_create_params": {"input": [{"role": "system", "content": "You sell tickets."}]}, "user": USER}


class Tickets(ResourcesServer[None]):
    @tool
    async def book(self, train: str) -> str:
        return f"{train} is booked"

    async def verify(self, rollout: VerifyRequest) -> float:
        return float(any(call["name"] == "book" for call in rollout.function_calls))


class Says(Model):
    """Answers from a list, one after the other, and keeps what it was asked."""

    lines: Sequence[Any] = ()
    asked: list[dict[str, Any]]

    async def start(self) -> None:
        self.asked = []

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(params)
        line = self.lines[min(len(self.asked), len(self.lines)) - 1]
        if isinstance(line, Exception):
            raise line
        said = message(line) if isinstance(line, str) else line
        return response([said], model="test", usage={"total_tokens": 10})


@asynccontextmanager
async def talk(policy: Sequence[Any], user: Sequence[Any], **fields: Any) -> AsyncIterator[tuple[Caller, Says]]:
    one = type("Policy", (Says,), {"lines": policy}).app({}, name="policy")
    other = type("User", (Says,), {"lines": user}).app({}, name="user")
    env = Tickets.app({}, name="tickets")
    async with running(one) as a, running(other) as b, running(env) as c:
        document = {
            "policy": {"responses_api_models": {"any": _address(a)}},
            "user": {"responses_api_models": {"any": _address(b)}},
            "tickets": {"resources_servers": {"any": _address(c)}},
        }
        references = {
            "model_server": {"type": "responses_api_models", "name": "policy"},
            "user_model_server": {"type": "responses_api_models", "name": "user"},
            "resources_server": {"type": "resources_servers", "name": "tickets"},
        }
        app = UserSimAgent.app(references | fields, name="agent", document=document)
        async with running(app) as url, Caller(url) as caller:
            yield caller, other.server


def _address(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {"host": parts.hostname, "port": parts.port}


BOOK = function_call("book", '{"train": "NJ 40"}', call_id="c1")


async def test_they_talk_until_the_user_has_enough() -> None:
    async with talk(["Where to?", BOOK, "Booked."], ["To Vienna.", "Thank you! ###STOP###"]) as (caller, user):
        reply = (await caller.post("/run", ROW)).body
        assert reply["reward"] == 1.0
        spoken = [item_text(item) for item in reply["response"]["output"] if item.get("type") == "message"]
        assert spoken == ["Hello, a ticket please.", "Where to?", "To Vienna.", "Booked.", "Thank you!"]
        simulation = reply["response"]["user_simulation"]
        assert (simulation["turns"], simulation["ended_by"]) == (3, "user")
        assert (simulation["user_usage"]["total_tokens"], reply["response"]["usage"]["total_tokens"]) == (20, 30)
        roles = [(item["role"], item_text(item)) for item in user.asked[0]["input"]]
        assert roles == [("assistant", "Hello, a ticket please."), ("user", "Where to?")]
        assert "hurried traveller" in user.asked[0]["instructions"]
        assert "You sell tickets." not in str(user.asked)
        assert not user.asked[0].get("tools")


async def test_without_an_opening_the_user_begins() -> None:
    row = {**ROW, "user": {"goal": "a ticket"}}
    async with talk(["Here you are."], ["One ticket.", "###STOP###"]) as (caller, _):
        reply = (await caller.post("/run", row)).body
        assert item_text(reply["response"]["output"][0]) == "One ticket."
        assert reply["response"]["user_simulation"]["ended_by"] == "user"


@pytest.mark.parametrize(
    ("user", "fields", "ended_by"),
    [
        ({"max_turns": 2}, {}, "max_turns"),
        ({}, {"max_turns": 3}, "max_turns"),
        ({"end_after_tool": "book"}, {}, "tool"),
        ({}, {"max_total_tokens": 25}, "max_total_tokens"),
    ],
)
async def test_other_things_end_a_talk_too(user: dict[str, Any], fields: dict[str, Any], ended_by: str) -> None:
    policy = ["Hm.", BOOK, "Well.", "Hm.", "Hm.", "Hm."]
    async with talk(policy, ["And?"], **fields) as (caller, _):
        reply = (await caller.post("/run", {**ROW, "user": USER | user})).body
        assert reply["response"]["user_simulation"]["ended_by"] == ended_by


async def test_a_user_model_that_fails_is_named_and_is_not_a_reward() -> None:
    async with talk(["Where to?"], [RolloutError("model", "out of order", retryable=True)]) as (caller, _):
        answered = await caller.post("/run", ROW)
        assert answered.status == 502
        assert (answered.body["error"]["kind"], answered.body["error"]["server"]) == ("model", "user")


async def test_a_row_without_a_user_is_the_rows_fault() -> None:
    async with talk(["x"], ["x"]) as (caller, _):
        answered = await caller.post("/run", {"responses_create_params": {"input": "x"}})
        assert (answered.status, answered.body["error"]["kind"]) == (422, "row")
        assert answered.body["error"]["message"].startswith("user:")


async def test_a_prompt_with_other_places_is_refused_at_the_start() -> None:
    with pytest.raises(UserError, match="user_prompt"):
        await UserSimAgent.app({"user_prompt": "be {nice}", "user_model_server": {"name": "u"}}, name="agent").start()
