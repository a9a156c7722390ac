"""Tools that a rollout has and the server does not know before: names, sessions, rewards, faults."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from gym.server import Agent, Row
from gym.server.adapters.tool_environment import BadCall, OpenedTools, ToolEnvironment, ToolReply, name_tools
from gym.server.score import Score
from gym.server.testing import Caller, running, scripted_judge
from gym.wire import items
from gym.wire.rows import VerifyRequest

ROW = {"responses_create_params": {"input": "open the door"}, "room": "cellar"}
KEY: dict[str, Any] = {
    "name": "door.open",
    "description": "Opens it.",
    "parameters": {"type": "object", "properties": {}},
}


class RoomRow(Row):
    room: str


@dataclass
class Room:
    name: str
    calls: list[str] = field(default_factory=list)
    closed: int = 0


class Rooms(ToolEnvironment[Room]):
    made: list[Room]

    async def start(self) -> None:
        self.made = []

    async def open(self, row: RoomRow) -> OpenedTools[Room]:
        self.made.append(Room(row.room))
        tools: list[dict[str, Any]] = [KEY, {"name": "look"}] if row.room == "cellar" else [{"name": "look"}]
        return OpenedTools(self.made[-1], tools, f"You are in the {row.room}.")

    async def call(self, state: Room, name: str, arguments: dict[str, Any]) -> Any:
        state.calls.append(name)
        if arguments.get("what") == "nothing":
            raise BadCall("what? there is nothing")
        if arguments.get("what") == "crash":
            raise ZeroDivisionError("by the library")
        if arguments.get("what") == "wrong":
            return "no reply"
        if arguments.get("what") == "nan":
            return ToolReply("seen", float("nan"))
        if arguments.get("what") == "trap":
            return ToolReply("it shuts", done=True, reason="caught")
        return ToolReply({"open": True}, 1.0, done=True) if name == "door.open" else ToolReply("dark", 0.25)

    async def discard(self, state: Room) -> None:
        state.closed += 1


@asynccontextmanager
async def rooms(**fields: Any) -> AsyncIterator[tuple[Caller, Any, Any]]:
    app = Rooms.app(fields, name="rooms")
    async with running(app) as url, Caller(url) as caller:
        yield caller, app.server, app


def finished(*calls: tuple[str, str]) -> dict[str, Any]:
    output = []
    for number, (name, arguments) in enumerate(calls):
        output.append(items.function_call(name, arguments, call_id=f"c{number}"))
        output.append(items.function_call_output(f"c{number}", "…"))
    return {**ROW, "response": {"output": [*output, items.message("done")]}}


async def test_a_session_names_its_tools_and_what_is_seen() -> None:
    async with rooms() as (caller, _, _):
        seeded = (await caller.post("/seed_session", ROW)).body
        assert [one["name"] for one in seeded["tools"]] == ["door_open", "look"]
        assert seeded["tools"][0]["parameters"] == KEY["parameters"]
        assert seeded["observation"] == [{"type": "message", "role": "user", "content": "You are in the cellar."}]


async def test_calls_earn_rewards_until_the_episode_is_over() -> None:
    async with rooms() as (caller, server, _):
        await caller.post("/seed_session", ROW)
        look = await caller.post("/look", {})
        assert (look.reply.body, look.reply.header(b"x-gym-episode-over")) == (b"dark", None)
        opened = await caller.post("/door_open", {})
        assert (opened.body, opened.reply.header(b"x-gym-episode-over")) == ({"open": True}, b"1")
        assert "over" in (await caller.post("/look", {})).body["error"]
        verified = (await caller.post("/verify", finished())).body
        assert (verified["reward"], verified["num_calls"], verified["terminated"]) == (1.25, 2, True)
        assert (server.made[0].calls, server.made[0].closed) == (["look", "door.open"], 1)


async def test_a_call_that_ends_the_episode_may_say_why() -> None:
    async with rooms() as (caller, _, _):
        await caller.post("/seed_session", ROW)
        trapped = await caller.post("/look", {"what": "trap"})
        assert trapped.reply.header(b"x-gym-episode-over") == b"1"
        verified = (await caller.post("/verify", finished())).body
    assert (verified["reward"], verified["terminated"], verified["reason"]) == (0.0, True, "caught")


async def test_a_tool_of_another_session_is_the_models_mistake_and_an_unknown_path_is_not_a_tool() -> None:
    async with rooms() as (caller, _, _), Caller(caller.url) as other:
        await caller.post("/seed_session", ROW)
        await other.post("/seed_session", {**ROW, "room": "attic"})
        assert (
            "There is no tool named 'door_open'. There are: look." in (await other.post("/door_open", {})).body["error"]
        )
        assert (await other.post("/window", {})).status == 404


DEEP = b'{"what": ' + b"[" * 600 + b"]" * 600 + b"}"  # what no library's line could write


@pytest.mark.parametrize("body", [b"[1]", b"no json", b'"text"', DEEP])
async def test_arguments_that_are_not_an_object_are_the_models_to_read(body: bytes) -> None:
    async with rooms() as (caller, _, _):
        await caller.post("/seed_session", ROW)
        assert (await caller.post("/look", body)).body == {"error": "The arguments are not a JSON object."}


async def test_a_bad_call_is_the_models_to_read_and_a_crash_is_a_failure() -> None:
    async with rooms() as (caller, _, _):
        await caller.post("/seed_session", ROW)
        assert (await caller.post("/look", {"what": "nothing"})).body == {"error": "what? there is nothing"}
        for what, said in (("crash", "ZeroDivisionError"), ("wrong", "a ToolReply is needed"), ("nan", "reward nan")):
            error = (await caller.post("/look", {"what": what})).body["error"]
            assert error["kind"] == "resources"
            assert said in error["message"]
        assert (await caller.post("/verify", finished())).body["error"]["kind"] == "resources"


async def test_the_last_call_that_is_allowed_ends_the_episode() -> None:
    async with rooms(max_calls=1, rewards="final") as (caller, _, _):
        await caller.post("/seed_session", ROW)
        assert (await caller.post("/look", {})).reply.header(b"x-gym-episode-over") == b"1"
        assert (await caller.post("/verify", finished())).body["reward"] == 0.25


async def test_a_tool_without_a_session_and_with_a_lost_one() -> None:
    async with rooms() as (caller, _, app):
        await caller.post("/seed_session", ROW)
        async with Caller(caller.url) as other:
            assert (await other.post("/look", {})).body["error"]["kind"] == "row"
        app.server.sessions.take_all()
        assert (await caller.post("/look", {})).body["error"]["kind"] == "lost_session"


async def test_a_rollout_is_verified_again_by_making_its_calls_again() -> None:
    async with rooms() as (caller, server, _):
        body = finished(("look", "{}"), ("door_open", "{}"), ("look", "{}"))
        assert (await caller.post("/verify", body)).body["reward"] == 1.25
        assert server.made[0].closed == 1


async def test_a_call_that_was_never_answered_is_not_made_again() -> None:
    async with rooms() as (caller, server, _):
        body = finished(("look", "{}"), ("door_open", "{}"))
        del body["response"]["output"][3]
        assert (await caller.post("/verify", body)).body["reward"] == 0.25
        assert server.made[0].calls == ["look"]


async def test_an_agent_merges_tools_and_observation_and_stops_at_the_end() -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        names = [one["name"] for one in body["tools"]]
        assert names == ["own", "door_open", "look"]
        return items.response([items.function_call("door_open", "{}", call_id="c")], model="m")

    own = {"type": "function", "name": "own", "parameters": {"type": "object", "properties": {}}}
    look = {"type": "function", "name": "look", "description": "of the row"}
    params = {"input": "open the door", "tools": [own, look]}
    async with rooms() as (caller, _, _), scripted_judge(name="policy") as policy:
        policy.answer = answer
        fields = {
            "model_server": {"type": "responses_api_models", "name": "policy"},
            "resources_server": {"type": "resources_servers", "name": "rooms"},
        }
        host, _, port = caller.url.removeprefix("http://").partition(":")
        here = {"rooms": {"resources_servers": {"rooms": {"host": host, "port": int(port)}}}}
        app = Agent.app(fields, name="agent", document={**policy.document, **here})
        async with running(app) as url, Caller(url) as asking:
            done = (await asking.post("/run", {**ROW, "responses_create_params": params})).body
    assert len(policy.asked) == 1
    assert done["reward"] == 1.0
    assert [one["content"] for one in done["responses_create_params"]["input"]] == [
        "open the door",
        "You are in the cellar.",
    ]
    assert done["responses_create_params"]["tools"] == policy.asked[0]["tools"]


def test_names_become_routes_and_stay_apart() -> None:
    long = "x" * 80
    given = [{"name": one} for one in ("fs.read", "fs/read", "verify", "", long, long, "ok")]
    tools, names = name_tools(given)
    assert list(tools) == ["fs_read", "fs_read_", "verify_", "tool", "x" * 64, f"{'x' * 61}_05", "ok"]
    assert list(names.values()) == [one["name"] for one in given]


class JudgedRooms(Rooms):
    async def finish(self, state: Room, rollout: VerifyRequest) -> Score:
        return Score(reward=0.5, reason="the window is open")


async def test_what_finish_says_beside_its_reward_is_in_the_reply() -> None:
    async with running(JudgedRooms.app({}, name="rooms")) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        await caller.post("/look", {})
        verified = (await caller.post("/verify", finished())).body
        assert (verified["reward"], verified["reason"], verified["num_calls"]) == (0.75, "the window is open", 1)
