"""Groups of a real stack for a trainer that changes the weights in mid-run: nothing lost, nothing mixed up unmarked."""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from gym.errors import UserError
from gym.trainers import GroupOptions, GroupStream, RolloutGroup, Source, SyncGroupStream
from tests.support.cli import gym
from tests.support.router import eventually

TOY = '''
import asyncio
from pathlib import Path
from typing import Any

from pydantic import Field

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.server import ResourcesServer, Row, VerifyRequest, tool
from gym.wire.sandbox import ExecRequest, SandboxSpec


class LabRow(Row):
    hangs: list[str] = []  # where each repeat hangs, "" for nowhere
    folder: str = ""  # for marks
    index: int = Field(0, alias="_ng_rollout_index")

    @property
    def hang(self) -> str:
        return self.hangs[self.index] if self.index < len(self.hangs) else ""


class LabTask(VerifyRequest, LabRow):
    want: str = ""


async def hang_at(folder: str, place: str) -> None:
    """A mark when it begins, another when it is cancelled."""
    with Path(folder, f"{place}-begun").open("a") as marks:
        marks.write("x")
    try:
        await asyncio.sleep(3600)
    finally:
        Path(folder, f"{place}-cancelled").touch()


class State:
    def __init__(self, row: LabRow, sandbox: Sandbox | None) -> None:
        self.row, self.sandbox = row, sandbox


class Toy(ResourcesServer[State]):
    async def start(self) -> None:
        self.sandboxes = Sandboxes.from_settings(self.settings)
        await self.sandboxes.begin()

    async def stop(self) -> None:
        await self.sandboxes.aclose()

    async def seed(self, row: LabRow) -> State:
        spec = SandboxSpec(image="host")
        return State(row, await self.sandboxes.create(spec, rollout="r") if row.hang == "sandbox" else None)

    @tool
    async def work(self, state: State) -> str:
        if state.row.hang == "tool":
            await hang_at(state.row.folder, "tool")
        if state.sandbox is not None:
            Path(state.row.folder, "sandbox-begun").touch()
            await state.sandbox.exec(ExecRequest(shell="sleep 3600", timeout=3600))
        return "done"

    async def verify(self, rollout: LabTask) -> float:
        if rollout.hang == "verify":
            await hang_at(rollout.folder, "verify")
        places = {one for one in rollout.hangs if one} - {"never"}
        while not all(Path(rollout.folder, f"{one}-begun").exists() for one in places):
            await asyncio.sleep(0.02)  # so that the stragglers are where they hang when the group is full
        return float(rollout.output_text == rollout.want if rollout.want else rollout.index % 2)

    async def close(self, state: State) -> None:
        if state.sandbox is not None:
            await state.sandbox.delete()
            Path(state.row.folder, "sandbox-cancelled").touch()


app = Toy.app()
'''
SLOW = '''
import asyncio
from pathlib import Path
from typing import Any

from gym.server import Model
from gym.wire import items


class Slow(Model):
    """Hangs where its prompt says so, from the second request on."""

    seen: set[str] = set()

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        folder = params["instructions"]
        if folder in self.seen:
            Path(folder, "model-begun").touch()
            try:
                await asyncio.sleep(3600)
            finally:
                Path(folder, "model-cancelled").touch()
        self.seen.add(folder)
        while not Path(folder, "model-begun").exists():
            await asyncio.sleep(0.02)
        return items.response([items.message("fine")], model="slow", params=params)


app = Slow.app()
'''
CONFIG = """
toy:
  resources_servers:
    toy:
      entrypoint: app.py
      domain: coding
      sandbox: {images: ['host'], warm: 0}
toy_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: toy}
      model_server: {type: responses_api_models, name: policy_model}
slow_model:
  responses_api_models:
    slow:
      entrypoint: app.py
slow_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: toy}
      model_server: {type: responses_api_models, name: slow_model}
"""
UP = ("up", "toy", "--model", "scripted", "--runtime", "local", "--port", "0", "--sandbox-provider", "subprocess")
TOOL = {"type": "function", "name": "work", "parameters": {"type": "object", "properties": {}}}
COLOURS = ("red", "green", "blue")


@dataclass
class Stack:
    folder: Path
    url: str

    def update_weights(self, version: int) -> None:
        """The policy says another word from now on: its server is another process."""
        done = gym(*UP, weights(version), cwd=self.folder, timeout=180)
        assert done.returncode == 0, done.stderr

    def ask(self, method: str, path: str, body: object = None) -> Any:
        with closing(http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=240)) as connection:
            connection.request(method, path, orjson.dumps(body), {"content-type": "application/json"})
            return json.loads(connection.getresponse().read())

    @contextmanager
    def order(self, order: dict[str, Any]) -> Iterator[tuple[str, http.client.HTTPResponse]]:
        """A stream of groups and its id; it ends with its connection. A test that fails shows what the stack said."""
        with closing(http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=240)) as connection:
            connection.request("POST", "/rollouts", orjson.dumps(order), {"content-type": "application/json"})
            with connection.getresponse() as reply:
                assert reply.status == 200, reply.read()
                try:
                    yield str(reply.getheader("x-gym-stream")), reply
                except AssertionError:
                    for log in sorted((self.folder / ".gym").rglob("*.log")):
                        sys.stdout.write(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}\n")
                    raise


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("groups")
    write(folder / "toy" / "configs" / "toy.yaml", CONFIG)
    write(folder / "toy" / "app.py", TOY)
    write(folder / "responses_api_models" / "slow" / "app.py", SLOW)
    try:
        done = gym(*UP, weights(0), cwd=folder, timeout=180)
        assert done.returncode == 0, done.stderr
        yield Stack(folder, json.loads(gym("ps", "--json", cwd=folder).stdout)["router"])
    finally:
        gym("down", cwd=folder)


def weights(version: int) -> str:
    rules = f"[{{when: {{after: 0, tools: [work]}}, call: {{name: work}}}}, {{say: {COLOURS[version]}}}]"
    return f"policy_model.responses_api_models.scripted.rules={rules}"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def row(number: int, **fields: Any) -> dict[str, Any]:
    asked = {"input": [{"role": "user", "content": f"row {number}"}], "tools": [TOOL]}
    return {"responses_create_params": asked, "agent_ref": {"name": "toy_agent"}, **fields}


def colours(group: RolloutGroup) -> list[tuple[int, str]]:
    """The version that each rollout says it had, and the word that the policy said."""
    found = []
    for rollout, version in zip(group.rollouts, group.versions, strict=True):
        stamp = orjson.loads(rollout.line)["_gym"]
        assert stamp["policy_version"] == version
        assert "policy_version_ended" not in stamp
        assert rollout.result is not None
        found.append((version, rollout.result["response"]["output"][-1]["content"][0]["text"]))
    return found


def lines_of(group: RolloutGroup) -> list[bytes]:
    return [one.line for one in group.cancelled]


def test_a_trainer_changes_the_weights_in_mid_run_and_no_group_mixes_them(stack: Stack) -> None:
    rows = [row(number) if number % 4 else row(number, want="red") for number in range(24)]
    options = GroupOptions(size=4, epochs=None, concurrency=8, max_stale=0, drop_equal=True, max_drops=50)
    keys: list[str] = []
    with SyncGroupStream(stack.url, rows, options) as groups:
        for version in range(3):
            batch = groups.take(6)
            assert {one for group in batch for one in colours(group)} == {(version, COLOURS[version])}
            assert all(group.complete and len(set(group.rewards)) == 2 and not group.stale for group in batch)
            keys += [one.key for group in batch for one in group.rollouts]
            groups.drain()
            assert groups.stats().in_flight == 0
            if version < 2:
                stack.update_weights(version + 1)
                groups.resume(version + 1)
        stats = groups.stats()
    assert len(keys) == len(set(keys)) == 3 * 6 * 4
    assert (stats.delivered, stats.incomplete, stats.failures) == (18, 0, {})
    assert stats.dropped >= 3  # every fourth row has the same reward each time
    assert stats.version == 2


def test_stragglers_are_cut_off_at_every_hop_and_recorded(stack: Stack, tmp_path: Path) -> None:
    rows = [row(0, hangs=["", "", "tool", "sandbox", "verify"], folder=str(tmp_path))]
    with SyncGroupStream(stack.url, rows, GroupOptions(size=2, extra=3, concurrency=8)) as groups:
        (group,) = groups
    assert group.complete
    assert [one.failure.kind for one in group.cancelled if one.failure] == ["cancelled"] * 3
    for one in group.cancelled:
        line = orjson.loads(one.line)
        assert "reward" not in line
        assert (line["kind"], line["_gym"]["why"], line["_gym"]["policy_version"]) == ("cancelled", "cut", 0)
    for place in ("tool", "sandbox", "verify"):
        eventually((tmp_path / f"{place}-cancelled").exists, what=f"the end of what hung in {place}")
    eventually(lambda: json.loads(gym("sandbox", "ls", "--json", cwd=stack.folder).stdout) == [])


def test_the_model_of_a_straggler_hears_of_it_too(stack: Stack, tmp_path: Path) -> None:
    one = row(0, agent_ref={"name": "slow_agent"})
    one["responses_create_params"]["instructions"] = str(tmp_path)
    with SyncGroupStream(stack.url, [one], GroupOptions(size=1, extra=1)) as groups:
        (group,) = groups
    assert (group.complete, len(group.cancelled)) == (True, 1)
    eventually((tmp_path / "model-cancelled").exists, what="the end of the model's call")


async def test_rollouts_begun_under_a_version_too_old_are_begun_again(stack: Stack, tmp_path: Path) -> None:
    rows = [row(0, hangs=["tool", ""], folder=str(tmp_path))]
    async with GroupStream(stack.url, rows, GroupOptions(size=2, max_stale=1, max_attempts=2)) as groups:
        begun = tmp_path / "tool-begun"
        await asyncio.to_thread(eventually, begun.exists)
        groups.set_version(1)
        assert groups.stats().cancelled == {}
        groups.set_version(2)
        await asyncio.to_thread(eventually, (tmp_path / "tool-cancelled").exists)
        await asyncio.to_thread(eventually, lambda: begun.read_text() == "xx", what="the second try")
        groups.set_version(4)
        group = await anext(groups)
    assert (group.complete, group.rewards) == (False, ())  # both were too old twice, and tries are bounded
    assert [one.failure.kind for one in group.failures if one.failure] == ["cancelled"] * 2
    whys = [(line["_gym"]["why"], line["_gym"]["policy_version"]) for line in map(orjson.loads, lines_of(group))]
    assert sorted(whys) == [("stale", 0), ("stale", 0), ("stale", 2), ("stale", 2)]


async def test_two_trainers_share_the_places_by_weight_and_who_pauses_lends_his(stack: Stack, tmp_path: Path) -> None:
    rows = [row(number, hangs=["tool"] * 100, folder=str(tmp_path)) for number in range(8)]
    options = {"size": 4, "concurrency": 8, "ahead": 8}
    async with (
        GroupStream(stack.url, rows, {**options, "share": 3.0, "name": "large"}) as large,
        GroupStream(stack.url, rows, {**options, "share": 1.0, "name": "small"}) as small,
    ):

        async def reach(wanted: tuple[int, int]) -> None:
            async with asyncio.timeout(240):
                while (large.stats().places, small.stats().places) != wanted:
                    await asyncio.sleep(0.05)

        await reach((6, 2))
        shown = await asyncio.to_thread(stack.ask, "GET", "/shares")
        assert {one["name"]: one["share"] for one in shown["shares"]} == {"large": 3.0, "small": 1.0}
        await large.drain(0.1)
        await reach((1, 8))
        large.resume()
        await reach((6, 2))
    await asyncio.to_thread(
        eventually, lambda: stack.ask("GET", "/shares")["shares"] == [], what="the end of both shares"
    )


def test_groups_over_http_are_steered_in_mid_stream(stack: Stack, tmp_path: Path) -> None:
    """All but the first group wait until the stream is drained: so it is in the middle when it is steered."""
    weights, waits = (("a", 2), ("b", 1)), {"hangs": ["drain", "drain"], "folder": str(tmp_path)}
    rows = {name: [row(n, **(waits if n or name == "b" else {})) for n in range(9)] for name, _ in weights}
    sources = [{"name": name, "weight": weight, "rows": rows[name]} for name, weight in weights]
    order = {"sources": sources, "size": 2, "ahead": 1, "epochs": None, "limit": 30, "name": "far away"}
    with stack.order(order) as (id, reply):
        first = orjson.loads(reply.readline())
        assert sorted(one["reward"] for one in first["rollouts"]) == [0.0, 1.0]  # in the order in which they ended
        assert first["group"]["complete"] is True
        assert [one["output"] for one in stack.ask("GET", "/collections")["collections"]] == [
            "POST /rollouts (far away)"
        ]

        def go_on() -> None:
            eventually(lambda: stack.ask("GET", f"/rollouts/{id}")["paused"], what="the drain")
            (tmp_path / "drain-begun").touch()

        going_on = threading.Thread(target=go_on)
        going_on.start()
        state = stack.ask("POST", f"/rollouts/{id}", {"drain": 120, "version": 7, "resume": True})
        going_on.join()
        assert (state["version"], state["paused"], state["called_off"]) == (7, False, 0)
        lines = [orjson.loads(line) for line in reply.read().splitlines()]
        eventually(lambda: "error" in stack.ask("GET", f"/rollouts/{id}"), what="the end of the stream")
        assert "no stream" in stack.ask("GET", f"/rollouts/{id}")["error"]["message"]
    groups, end = [first, *lines[:-1]], lines[-1]["stream"]
    assert Counter(one["group"]["source"] for one in groups) == {"a": 20, "b": 10}
    assert groups[-1]["group"]["versions"] == [7, 7]
    assert (end["delivered"], end["dropped"], end["failures"]) == (30, 0, {})
    eventually(lambda: stack.ask("GET", "/collections")["collections"] == [], what="the end of the collection")


def test_an_order_of_groups_that_is_wrong_is_refused_before_anything_runs(stack: Stack) -> None:
    def refused(order: dict[str, Any]) -> str:
        return str(stack.ask("POST", "/rollouts", order)["error"]["message"])

    fine = [row(0)]
    assert "did you mean drop_equal?" in refused({"rows": fine, "size": 2, "drop_equals": True})
    assert "size is 0; it must be between 1" in refused({"rows": fine, "size": 0})
    assert "leave repeats out" in refused({"rows": fine, "size": 2, "repeats": 2})
    assert "either rows or sources" in refused({"rows": fine, "sources": [], "size": 2})
    assert "nothing to draw from" in refused({"sources": []})
    assert "the weight of 'a' is -1" in refused({"sources": [{"name": "a", "rows": fine, "weight": -1}]})
    assert "all weights are 0" in refused({"sources": [{"name": "a", "rows": fine, "weight": 0}]})
    assert "sources.rows: Input should be a valid list" in refused({"sources": [{"name": "a", "rows": "/etc/passwd"}]})
    assert "did you mean curriculum.prior?" in refused({"rows": fine, "size": 2, "curriculum": {"prio": "x"}})
    assert "has no agent 'missing'" in refused({"rows": [{**fine[0], "agent_ref": {"name": "missing"}}], "size": 2})
    assert "no stream 'x' is open" in stack.ask("POST", "/rollouts/x", {"pause": True})["error"]["message"]
    assert stack.ask("GET", "/collections")["collections"] == []


def test_a_client_that_goes_ends_its_stream(stack: Stack, tmp_path: Path) -> None:
    rows = [row(0), row(1, hangs=["tool", "tool"], folder=str(tmp_path))]
    with stack.order({"rows": rows, "size": 2, "ahead": 2}) as (id, reply):
        assert reply.readline()
        eventually((tmp_path / "tool-begun").exists)
        assert stack.ask("GET", f"/rollouts/{id}")["under_way"] == 1
    eventually((tmp_path / "tool-cancelled").exists, what="the end of the tool")
    eventually(lambda: "error" in stack.ask("GET", f"/rollouts/{id}"), what="the end of the stream")


def test_a_client_that_does_not_read_holds_its_stream_up(stack: Stack) -> None:
    rows = [row(number, padding="x" * 500_000) for number in range(2)]
    seen: list[int] = []

    def is_held_up() -> bool:
        state = stack.ask("GET", f"/rollouts/{id}")
        seen.append(state["delivered"])
        return state["ready"] == 2 and state["in_flight"] == 0 and len(seen) > 5 and len(set(seen[-5:])) == 1

    with stack.order({"rows": rows, "size": 2, "ahead": 2, "epochs": None, "limit": 60}) as (id, reply):
        eventually(is_held_up, seconds=240, what="the end of the reading ahead")
        assert seen[-1] < 50
        lines = reply.read().splitlines()
    assert orjson.loads(lines[-1])["stream"]["delivered"] == len(lines) - 1 == 60


def test_the_sync_door_collects_while_the_trainer_is_busy_and_can_be_closed_from_another_thread(stack: Stack) -> None:
    rows = [row(number) for number in range(40)]
    groups = SyncGroupStream(stack.url, rows, GroupOptions(size=2, ahead=3))
    with pytest.raises(UserError, match="not open"):
        groups.take(1)
    with groups:
        eventually(lambda: groups.stats().ready == 3)
        assert groups.stats().in_flight == 0  # nothing further ahead than asked
        assert len(groups.take(2)) == 2
        groups.pause()
        closer = threading.Thread(target=groups.close)
        eventually(lambda: groups.stats().in_flight == 0)
        while groups.stats().ready:
            groups.take(1)
        closer.start()
        with pytest.raises(UserError, match=r"closed|not open"):
            groups.take(1)
        closer.join()


async def test_a_blend_keeps_its_weights_while_a_part_of_it_is_dropped(stack: Stack) -> None:
    mixed = [row(number, want="" if number % 2 else "nothing") for number in range(10)]
    blend = [Source("mixed", mixed, weight=1.0), Source("plain", [row(number) for number in range(10)], weight=3.0)]
    options = GroupOptions(size=2, epochs=None, limit=40, ahead=1, drop_equal=True)
    seen: Counter[str] = Counter()
    async with GroupStream(stack.url, blend, options) as groups:
        async for group in groups:
            seen[group.source] += 1
            assert abs(seen["mixed"] - sum(seen.values()) / 4) <= 1
        parts = groups.stats().parts
    assert seen == {"mixed": 10, "plain": 30}
    assert (parts["mixed"].dropped >= 8, parts["plain"].dropped) == (True, 0)
