"""Verifiers and tools re-run, against a real resources server behind the paths of a router."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from gym.collect.sidecar import OutputPaths
from gym.collect.study.recorded import Inputs, read_rollouts
from gym.collect.study.rerun import RerunOptions, RerunResult
from gym.collect.study.reverification import reverify_rollouts
from gym.collect.study.tool_replay import called_agents, recorded_calls, replay_rollouts, same_json, was_issued
from gym.errors import InfraError, UserError
from gym.server import ResourcesServer, Row, VerifyRequest, tool
from gym.server.testing import running
from gym.wire.failures import RolloutError
from gym.wire.items import function_call, function_call_output, message
from tests.support.recordings import ran, row, write_collection

AGENT = "shop_agent"


@dataclass
class Market:
    """What the test may turn; what the server saw."""

    factor: int = 1
    broken: str = ""
    closed: int = 0
    open: int = 0
    most: int = 0
    verified: list[str] = field(default_factory=list)


class Basket(Row):
    budget: int


class Sold(VerifyRequest):
    budget: int


def make_shop(market: Market, mode: Any = "stateless") -> Any:
    class Shop(ResourcesServer[dict[str, int]]):
        reverify_mode = mode

        async def seed(self, row: Basket) -> dict[str, int]:
            market.open += 1
            market.most = max(market.most, market.open)
            return {"left": row.budget}

        @tool
        async def buy(self, price: int, state: dict[str, int]) -> dict[str, int]:
            """Buys."""
            if market.broken == "tool":
                raise RolloutError("sandbox", "the till is broken")
            state["left"] -= price * market.factor
            return {"left": state["left"]}

        async def verify(self, rollout: Sold, state: dict[str, int] | None) -> float:
            if market.broken == "verify":
                raise ZeroDivisionError("boom")
            left = state["left"] if state else int(rollout.last_text)
            market.verified.append(rollout.last_text)
            return 1.0 if left * market.factor == 5 else 0.0

        async def close(self, state: dict[str, int]) -> None:
            market.open -= 1
            market.closed += 1

    return Shop.app({}, name="shop")


@asynccontextmanager
async def stack_of(app: Any, *, token: str = "", agents: dict[str, Any] | None = None) -> AsyncIterator[str]:
    """The one server under `/s/shop`, and the configuration that says so."""
    references = {"resources_server": {"type": "resources_servers", "name": "shop"}}
    tree = {name: {"responses_api_agents": {"simple_agent": fields}} for name, fields in (agents or {}).items()}
    tree[AGENT] = {"responses_api_agents": {"simple_agent": references}}
    tree["shop"] = {"resources_servers": {"shop": {"domain": "other"}}}

    async def route(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        sent = dict(scope["headers"]).get(b"authorization", b"")
        status, body = 404, b"{}"
        if token and sent != b"Bearer " + token.encode():
            status = 401
        elif scope["path"].startswith("/s/shop/"):
            path = scope["path"].removeprefix("/s/shop")
            await app({**scope, "path": path, "raw_path": path.encode()}, receive, send)
            return
        elif scope["path"] == "/global_config_dict_yaml":
            status, body = 200, orjson.dumps(yaml.safe_dump(tree))
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    async with running(route) as url:
        yield url


def sale(task: int, *, price: int = 5, repeat: int = 0, reward: float = 1.0, **extra: Any) -> tuple[bytes, bytes]:
    """A rollout that had 10, bought once and said what was left."""
    body, line = ran(task, repeat, reward, agent=AGENT, given=row(task, budget=10), **extra)
    fields = orjson.loads(line)
    call = function_call("buy", orjson.dumps({"price": price}).decode(), call_id="c1")
    output = function_call_output("c1", f'{{ "left": {10 - price} }}')
    fields["response"]["output"] = [call, output, message(str(10 - price))]
    return body, orjson.dumps(fields) + b"\n"


def ignore(done: int, differing: int) -> None:
    return None


async def replay(paths: OutputPaths, url: str, **options: Any) -> RerunResult:
    with Inputs(paths.materialized) as inputs:
        return await replay_rollouts(paths, inputs, RerunOptions(stack_url=url, **options), ignore)


async def reverify(paths: OutputPaths, url: str, *, token: str = "", **options: Any) -> RerunResult:
    with Inputs(paths.materialized) as inputs:
        rerun = RerunOptions(stack_url=url, token=token)
        return await reverify_rollouts(paths, inputs, rerun, ignore, **options)


async def test_a_replay_that_goes_as_recorded_has_no_difference(tmp_path: Path) -> None:
    market = Market()
    paths = write_collection(tmp_path / "x.jsonl", [sale(task) for task in range(9)])
    async with stack_of(make_shop(market)) as url:
        outcome = await replay(paths, url, concurrency=2)
    assert (outcome.checked, outcome.calls, outcome.differing, outcome.exit_code) == (9, 9, 0, 0)
    assert market.closed == 9
    assert market.most <= 2


async def test_a_changed_tool_is_reported_call_by_call_with_file_and_line(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [sale(1), sale(0, price=0, reward=0.0)])
    async with stack_of(make_shop(Market(factor=2))) as url:
        outcome = await replay(paths, url)
    assert (outcome.differing, outcome.failed, outcome.exit_code) == (1, 0, 1)
    first, second = outcome.differences
    assert (first.where, first.what) == (f"{paths.rollouts}:1", "call 1: buy")
    assert (orjson.loads(first.recorded), orjson.loads(first.now)) == ({"left": 5}, {"left": 0})
    assert (second.where, second.what, second.recorded, second.now) == (f"{paths.rollouts}:1", "reward", "1", "0")
    assert (outcome.mean_recorded, outcome.mean_now) == (0.5, 0.0)


@pytest.mark.parametrize(("broken", "said"), [("verify", "boom"), ("tool", "the till is broken")])
async def test_a_server_that_fails_is_a_failure_and_never_a_reward_of_0(tmp_path: Path, broken: str, said: str) -> None:
    market = Market(broken=broken)
    paths = write_collection(tmp_path / "x.jsonl", [sale(0, reward=0.0)])
    async with stack_of(make_shop(market)) as url:
        outcome = await replay(paths, url)
        (difference,) = outcome.differences
        assert market.closed == 1
    assert (outcome.failed, outcome.mean_now) == (1, None)
    assert difference.what == "failed"
    assert said in difference.now


async def test_verifiers_are_run_again_on_the_recorded_response(tmp_path: Path) -> None:
    market = Market()
    attempts = [sale(0), sale(1, reward=0.0), sale(2, price=1, reward=0.0)]
    paths = write_collection(tmp_path / "x.jsonl", attempts)
    output = tmp_path / "now.jsonl"
    async with stack_of(make_shop(market)) as url:
        outcome = await reverify(paths, url, output=output)
    assert market.most == 0
    assert sorted(market.verified) == ["5", "5", "9"]
    (difference,) = outcome.differences
    assert (difference.where, difference.recorded, difference.now) == (f"{paths.rollouts}:2", "0", "1")
    assert (outcome.output, outcome.exit_code) == (output, 1)
    now = {one.task: one for one in read_rollouts(output)}
    before = {one.task: one for one in read_rollouts(paths.rollouts)}
    assert [now[task].reward for task in range(3)] == [1.0, 1.0, 0.0]
    assert all(now[task].digest == before[task].digest for task in range(3))
    assert now[1].fields["_gym"]["reverified"] is True
    assert now[1].fields["_gym"]["attempt"] == 1
    assert now[1].fields["response"] == before[1].fields["response"]


@pytest.mark.parametrize("mode", ["unsupported", "unknown"])
async def test_a_verifier_that_may_need_its_session_is_refused_unless_forced(tmp_path: Path, mode: str) -> None:
    market = Market()
    paths = write_collection(tmp_path / "x.jsonl", [sale(0)])
    async with stack_of(make_shop(market, mode)) as url:
        with pytest.raises(UserError) as caught:
            await reverify(paths, url, output=tmp_path / "now.jsonl")
        assert mode in caught.value.what
        assert "--force" in caught.value.hint
        assert market.verified == []
        outcome = await reverify(paths, url, output=tmp_path / "now.jsonl", force=True)
    assert outcome.output == tmp_path / "unsafe_now.jsonl"
    assert not (tmp_path / "now.jsonl").exists()
    assert (tmp_path / "unsafe_now.jsonl").exists()


async def test_a_verifier_that_fails_leaves_its_rollout_out_and_is_listed(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [sale(0)])
    async with stack_of(make_shop(Market(broken="verify"))) as url:
        outcome = await reverify(paths, url, output=tmp_path / "now.jsonl")
    assert (outcome.failed, outcome.exit_code, outcome.mean_now) == (1, 1, None)
    assert outcome.differences[0].what == "verify failed"
    assert (tmp_path / "now.jsonl").read_bytes() == b""


@pytest.mark.parametrize("run_again", [reverify, replay])
async def test_no_rollouts_are_not_said_to_agree(tmp_path: Path, run_again: Any) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [], lost=[sale(0)])
    async with stack_of(make_shop(Market())) as url:
        with pytest.raises(UserError, match=r"x\.jsonl: no rollouts"):
            await run_again(paths, url)


async def test_the_token_of_the_router_is_sent_along(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [sale(0)])
    async with stack_of(make_shop(Market()), token="sesame") as url:
        with pytest.raises(UserError) as caught:
            await reverify(paths, url)
        assert "GYM_TOKEN" in caught.value.hint
        assert (await reverify(paths, url, token="sesame")).exit_code == 0
        assert (await replay(paths, url, token="sesame")).exit_code == 0


async def test_an_agent_that_the_stack_lacks_is_named_with_those_it_has(tmp_path: Path) -> None:
    body, line = sale(0)
    other = line.replace(b'"shop_agent"', b'"shop_agents"')
    paths = write_collection(tmp_path / "x.jsonl", [(body, line), (sale(1)[0], sale(1)[1]), (sale(2)[0], other)])
    async with stack_of(make_shop(Market())) as url:
        with pytest.raises(UserError) as caught:
            await reverify(paths, url)
    assert caught.value.what.startswith(f"{paths.rollouts}:3: ")
    assert "shop_agent;" in caught.value.hint


async def test_an_agent_without_resources_has_nothing_to_run_again(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [ran(0, agent="talker")])
    async with stack_of(make_shop(Market()), agents={"talker": {}}) as url:
        with pytest.raises(UserError, match=r"x\.jsonl:1: agent 'talker' has no resources server"):
            await replay(paths, url)


async def test_a_place_where_no_stack_is_is_said(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [sale(0)])
    async with running(make_shop(Market())) as url:
        with pytest.raises(InfraError, match="no configuration"):
            await replay(paths, url)
    with pytest.raises(InfraError, match="no stack answers"):
        await replay(paths, url)
    with pytest.raises(UserError, match="not an http"):
        await replay(paths, "shop")


def test_calls_are_paired_with_their_outputs_in_the_order_in_which_they_ran() -> None:
    output = [
        function_call("a", "{}", call_id="1"),
        function_call("b", "{}", call_id="2"),
        function_call_output("1", "one"),
        function_call_output("2", "two"),
        function_call("a", "{}", call_id="1"),
        function_call_output("1", "three"),
        function_call("never", "{}", call_id="3"),
        function_call_output("unknown", "four"),
    ]
    assert [(call["name"], answer) for call, answer in recorded_calls(output)] == [
        ("a", "one"),
        ("b", "two"),
        ("a", "three"),
    ]


def test_what_another_agent_answered_differs_from_the_tools_of_a_server() -> None:
    assert called_agents({"agent_calls": [{"tool": "ask_critic"}, {"tool": "ask_critic"}, "broken"]}) == {"ask_critic"}
    assert called_agents({"agent_calls": None}) == called_agents({}) == set()


def test_what_the_agent_answered_itself_is_not_issued() -> None:
    assert was_issued("buy", "{}")
    assert not was_issued("verify", "{}")
    assert not was_issued("../run", "{}")
    assert not was_issued("buy", "{broken")


@pytest.mark.parametrize(
    ("recorded", "now", "same"),
    [
        ('{"a":1,"b":2}', '{"b": 2, "a": 1}', True),
        ("1", "1.0", True),
        ("1", "true", False),
        ('[{"a":[0]}]', '[{"a":[false]}]', False),
        ("[1]", "[1,2]", False),
        ('{"a":1}', '{"a":1,"b":null}', False),
        ("plain", "plain", True),
        ("plain", "other", False),
        ('{"a":1}', "plain", False),
        ([{"type": "input_text", "text": "x"}], '[{"type":"input_text","text":"x"}]', True),
    ],
)
def test_outputs_are_equal_as_json(recorded: Any, now: str, same: bool) -> None:
    assert same_json(recorded, now) is same
