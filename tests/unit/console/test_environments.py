"""The Environments pages: what is shown of a folder, and a person's try at a row, over real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.console.environments.audit_figures import read_audits
from gym.console.environments.env_catalog import EnvCatalog
from gym.console.environments.environments_section import make_section
from gym.console.pages.shell import PageAccess, make_app
from gym.files import own_root
from gym.runtime.compose.catalog_copies import write_catalog
from gym.server.testing import Caller, running
from tests.support.tried_stack import (
    ROW,
    CountingServer,
    GuessingServer,
    console_to_try,
    write_environment,
    write_stack_files,
)

API = "/view/api/environments"
JSON = {"content_type": "application/json"}
SECRET = "the secret of another folder"


@asynccontextmanager
async def catalogue(root: Path, *, copies: bool = False) -> AsyncIterator[Caller]:
    """As `gym view` shows it: no stack. With `copies` as a console in a container does."""
    catalog = EnvCatalog([], root) if copies else EnvCatalog([root])
    app = make_app([make_section(catalog)], PageAccess())
    async with running(app) as url, Caller(url) as caller:
        yield caller


@asynccontextmanager
async def counting(tmp_path: Path, **limits: Any) -> AsyncIterator[tuple[Caller, Caller]]:
    """The console, and the server itself."""
    write_environment(tmp_path / "root")
    async with (
        running(CountingServer.app()) as server,
        console_to_try(tmp_path, {"counting": server}, tmp_path / "root", **limits) as url,
        Caller(url) as caller,
        Caller(server) as own,
    ):
        yield caller, own


async def begin(caller: Caller, **more: Any) -> Any:
    found = await caller.post(f"{API}/tries", {"server": "counting", "example": 0} | more, **JSON)
    assert found.status == 200, found.body
    return found.body


async def turn(caller: Caller, view: Any, **said: Any) -> Any:
    found = await caller.post(f"{API}/tries/{view['id']}", said, **JSON)
    assert found.status == 200, found.body
    return found.body


async def sessions(server: Caller) -> int:
    return int((await server.get("/healthz")).body["sessions"])


async def test_all_that_lies_in_a_folder_is_shown(tmp_path: Path) -> None:
    write_environment(tmp_path)
    async with catalogue(tmp_path) as caller:
        listed = (await caller.get(f"{API}/list")).body
        found = (await caller.get(f"{API}/one?name=counting")).body
        page = await caller.get("/view/environments?name=counting")
    assert [(one["name"], one["licence"]) for one in listed["environments"]] == [("counting", "Apache-2.0")]
    assert (listed["stack"], found["instances"], found["missing"]) == (False, [], "")
    assert found["readme"].startswith("# counting")
    assert (found["rows"]["total"], found["rows"]["shown"][0]["row"]) == (2, ROW)
    case = {"name": "no calls", "kind": "zero_reward", "reward": 0.0, "error": None, "answer": "done", "calls": 0}
    assert found["cases"] == {"total": 1, "shown": [{**case, "said": []}]}
    figures = {"file": "example_metrics.json", "agent": "an_agent", "figures": {"mean/reward": 0.5}}
    assert found["metrics"] == [figures]
    assert (page.status, found["tools"]) == (200, [])


async def test_without_a_server_tools_are_those_that_rows_list(tmp_path: Path) -> None:
    tool = {"type": "function", "name": "look", "parameters": {}}
    write_environment(tmp_path, row={"responses_create_params": {"input": "?", "tools": [tool, tool]}})
    async with catalogue(tmp_path) as caller:
        found = (await caller.get(f"{API}/one?name=counting")).body
    assert (found["tools"], found["tools_from"]) == ([tool], "its example rows")


async def test_every_environment_that_came_with_the_package_is_shown() -> None:
    async with catalogue(own_root()) as caller:
        listed = (await caller.get(f"{API}/list")).body["environments"]
        for one in listed:
            found = await caller.get(f"{API}/one?name={one['name']}")
            assert found.status == 200, one
            assert found.body["readme"], one
        mcqa = (await caller.get(f"{API}/one?name=mcqa")).body
    assert len(listed) > 40
    assert mcqa["cases"]["total"] > 20
    assert {"constant answer", "near misses"} <= {head for table in mcqa["audits"] for head in table}


def test_figures_of_audits_stand_under_the_headings_of_their_tables(tmp_path: Path) -> None:
    page = tmp_path / "audits.md"
    page.write_text(
        "| Environment | p50 | |\n|---|---|---|\n| [a](../a/README.md) | 1 ms |  |\n\n| | x |\n|-|-|\n| a | 0 |\n"
    )
    assert read_audits(page) == {"a": [{"p50": "1 ms"}, {"x": "0"}]}
    assert read_audits(tmp_path / "absent.md") == {}


async def test_no_name_and_no_link_leads_out_of_the_folders(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text(SECRET)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "example.jsonl").write_text(f'{{"a": "{SECRET}"}}\n')
    place = write_environment(tmp_path / "root")
    (place / "README.md").unlink()
    (place / "README.md").symlink_to(tmp_path / "secret.md")
    (place / "data" / "example.jsonl").unlink()
    (place / "data" / "example.jsonl").symlink_to(tmp_path / "secret" / "example.jsonl")
    async with catalogue(tmp_path / "root") as caller:
        found = await caller.get(f"{API}/one?name=counting")
        others = [await caller.get(f"{API}/one?name={one}") for one in ("../../secret", "%2e%2e", "", "secret")]
    assert SECRET.encode() not in found.reply.body
    assert {one.status for one in others} == {404}


async def test_copies_show_what_the_folders_do_and_nothing_else_of_them(tmp_path: Path) -> None:
    place = write_environment(tmp_path / "root")
    (place / "configs").mkdir()
    (place / "configs" / "env.yaml").write_text(f"key: {SECRET}\n")
    (place / ".env").write_text(SECRET)
    (place / "data" / "train.jsonl").write_text(f'{{"a": "{SECRET}"}}\n')
    write_catalog(tmp_path / "copies", [tmp_path / "root"])
    async with catalogue(tmp_path / "root") as caller:
        shown = (await caller.get(f"{API}/one?name=counting")).body
        listed = (await caller.get(f"{API}/list")).body
    async with catalogue(tmp_path / "copies", copies=True) as caller:
        assert (await caller.get(f"{API}/one?name=counting")).body == shown
        assert (await caller.get(f"{API}/list")).body == listed
    texts = [path.read_text() for path in (tmp_path / "copies").rglob("*") if path.is_file()]
    assert not [text for text in texts if SECRET in text]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "copies").rglob("*.md")} == {0o644}
    (place / "README.md").unlink()
    write_catalog(tmp_path / "copies", [tmp_path / "root"])
    assert not (tmp_path / "copies" / "counting" / "README.md").exists()


async def test_where_no_stack_runs_there_is_nothing_to_try(tmp_path: Path) -> None:
    write_environment(tmp_path)
    async with catalogue(tmp_path) as caller:
        found = await caller.post(f"{API}/tries", {"server": "counting", "example": 0}, **JSON)
    assert found.status == 400
    assert "gym up NAME" in found.body["error"]


async def test_a_person_calls_tools_answers_and_gets_the_reward_as_the_server_gave_it(tmp_path: Path) -> None:
    async with counting(tmp_path) as (caller, server):
        view = await begin(caller)
        assert [one["name"] for one in view["tools"]] == ["add"]
        assert view["items"][0]["content"] == ROW["responses_create_params"]["input"][0]["content"]
        assert await sessions(server) == 1
        view = await turn(caller, view, tool="add", arguments={"number": 3})
        assert view["items"][-1]["output"] == '{"count":3}'
        view = await turn(caller, view, tool="add", arguments={"number": "many"})
        assert "number" in view["items"][-1]["output"]  # a policy's mistake is its own to read
        view = await turn(caller, view, say="done")
        assert (view["state"], view["verdict"]["reward"], view["failure"]) == ("over", 0.75, None)
        assert await sessions(server) == 0
        assert (await caller.get(f"{API}/tries/{view['id']}")).body == view
        late = await caller.post(f"{API}/tries/{view['id']}", {"say": "again"}, **JSON)
        assert (late.status, "over" in late.body["error"]) == (400, True)


async def test_a_wrong_answer_gets_the_verifier_s_reason(tmp_path: Path) -> None:
    async with counting(tmp_path) as (caller, _):
        view = await turn(caller, await begin(caller, example=1), say="done")
    assert (view["verdict"]["reward"], view["verdict"]["reason"]) == (0.0, "counted 0")


async def test_who_leaves_leaves_no_session(tmp_path: Path) -> None:
    async with counting(tmp_path) as (caller, server):
        view = await turn(caller, await begin(caller), close=True)
        assert (view["state"], view["verdict"], await sessions(server)) == ("closed", None, 0)


async def test_an_environment_of_steps_is_tried_to_its_end(tmp_path: Path) -> None:
    write_environment(tmp_path / "root", "guessing")
    async with (
        running(GuessingServer.app()) as server,
        console_to_try(tmp_path, {"guessing": server}, tmp_path / "root") as url,
        Caller(url) as caller,
    ):
        view = await begin(caller, server="guessing")
        assert (view["steps"], view["items"][-1]["content"]) == (True, "Guess a number.")
        view = await turn(caller, view, say="3")
        assert (view["state"], view["rewards"], view["items"][-1]["content"]) == ("open", [0.25], "Again.")
        view = await turn(caller, view, say="7")
    assert (view["state"], view["rewards"], view["verdict"]["reward"]) == ("over", [0.25, 1.0], 1.25)


async def test_what_the_infrastructure_caused_is_a_failure_with_its_kind_and_no_reward(tmp_path: Path) -> None:
    async with counting(tmp_path) as (caller, server):
        view = await turn(caller, await begin(caller, row={**ROW, "goal": -1}), say="done")
        assert (view["state"], view["verdict"]) == ("failed", None)
        assert (view["failure"]["kind"], view["failure"]["message"]) == ("sandbox", "the sandbox is gone")
        row = await turn(caller, await begin(caller, row={"responses_create_params": {"input": "?"}}), say="done")
        assert (row["state"], row["failure"]["kind"], row["verdict"]) == ("failed", "row", None)
        assert await sessions(server) == 0


async def test_a_server_that_is_gone_is_a_failure_from_the_beginning(tmp_path: Path) -> None:
    write_environment(tmp_path / "root")
    async with (
        console_to_try(tmp_path, {"counting": "http://127.0.0.1:9"}, tmp_path / "root") as url,
        Caller(url) as caller,
    ):
        view = await begin(caller)
        shown = (await caller.get(f"{API}/one?name=counting")).body
    assert (view["state"], view["verdict"], view["failure"]["kind"]) == ("failed", None, "resources")
    assert (shown["instances"], shown["tools"]) == (["counting"], [])


async def test_sessions_are_few_and_the_one_unused_for_longest_makes_room(tmp_path: Path) -> None:
    async with counting(tmp_path, max_sessions=2) as (caller, server):
        first, second = await begin(caller), await begin(caller)
        await turn(caller, first, tool="add", arguments={"number": 1})
        third = await begin(caller)
        found = [(await caller.get(f"{API}/tries/{one['id']}")) for one in (first, second, third)]
        assert [one.status for one in found] == [200, 404, 200]
        assert "begin another" in found[1].body["error"]
        while await sessions(server) > 2:  # its end is sent behind our back
            await asyncio.sleep(0.01)


async def test_a_session_ends_after_its_time(tmp_path: Path) -> None:
    async with counting(tmp_path, seconds=0.3) as (caller, _):
        view = await caller.post(f"{API}/tries", {"server": "counting", "example": 0}, **JSON)
        while (seen := await caller.get(f"{API}/tries/{view.body['id']}")).status == 200:
            await asyncio.sleep(0.01)
        assert seen.status == 404


async def test_the_console_s_end_closes_what_is_open(tmp_path: Path) -> None:
    write_environment(tmp_path / "root")
    async with running(CountingServer.app()) as server, Caller(server) as own:
        async with console_to_try(tmp_path, {"counting": server}, tmp_path / "root") as url, Caller(url) as caller:
            await begin(caller)
            assert await sessions(own) == 1
        assert await sessions(own) == 0


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"say": "done"}', "text/plain", 415),
        (b'{"say": "done"}', "application/x-www-form-urlencoded", 415),
        (b'{"say": "' + b"x" * 5_000_001 + b'"}', "application/json", 413),
        (b"{torn", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"{}", "application/json", 400),
        (b'{"say": "a", "tool": "add"}', "application/json", 400),
        (b'{"tool": "subtract", "arguments": {}}', "application/json", 400),
        (b'{"tool": "verify", "arguments": {}}', "application/json", 400),
        (b'{"tool": "add", "arguments": []}', "application/json", 400),
    ],
)
async def test_what_is_not_a_turn_is_refused_and_the_try_goes_on(
    tmp_path: Path, body: bytes, kind: str, status: int
) -> None:
    listed = [{"type": "function", "name": one} for one in ("verify", "add")]
    row = {**ROW, "responses_create_params": {"input": "?", "tools": listed}}
    async with counting(tmp_path) as (caller, _):
        view = await begin(caller, row=row)
        found = await caller.post(f"{API}/tries/{view['id']}", body, content_type=kind)
        assert (found.status, bool(found.body["error"])) == (status, True)
        assert (await caller.get(f"{API}/tries/{view['id']}")).body["state"] == "open"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"server": "counting"}, 400),
        ({"server": "counting", "example": 7}, 400),
        ({"server": "counting", "example": -1}, 400),
        ({"server": "counting", "row": []}, 400),
        ({"server": "counting", "row": {"question": "?"}}, 400),
        ({"server": "other", "example": 0}, 404),
        ({"server": ["counting"], "example": 0}, 404),
    ],
)
async def test_what_cannot_be_begun_is_reported(tmp_path: Path, asked: Any, status: int) -> None:
    async with counting(tmp_path) as (caller, server):
        found = await caller.post(f"{API}/tries", asked, **JSON)
        assert (found.status, bool(found.body["error"]), await sessions(server)) == (status, True, 0)


async def test_a_folder_that_the_console_does_not_see_is_said_to_be_missing(tmp_path: Path) -> None:
    async with counting(tmp_path) as (caller, server):
        write_stack_files(tmp_path, {"counting": server.url, "own": server.url}, tmp_path / "elsewhere")
        found = (await caller.get(f"{API}/one?name=own")).body
        known = (await caller.get(f"{API}/one?name=counting")).body
        listed = (await caller.get(f"{API}/list")).body
        view = await begin(caller, server="own", row=ROW)
    assert [one["name"] for one in listed["environments"]] == ["counting", "own"]
    assert listed["missing"] == ""
    assert (found["readme"], found["rows"]["total"], found["instances"]) == ("", 0, ["own"])
    assert "elsewhere/servers/resources/own, which this console does not see" in found["missing"]
    assert [one["name"] for one in found["tools"]] == ["add"]
    assert (found["tools_from"], view["state"]) == ("own, which runs", "open")
    assert known["readme"].startswith("# counting")
    assert "does not see" in known["missing"]


async def test_a_console_that_sees_no_folders_lists_what_runs_and_says_so(tmp_path: Path) -> None:
    async with (
        running(CountingServer.app()) as server,
        console_to_try(tmp_path, {"counting": server}, tmp_path / "root") as url,
        Caller(url) as caller,
    ):
        listed = (await caller.get(f"{API}/list")).body
        shown = (await caller.get(f"{API}/one?name=counting")).body
        view = await turn(caller, await begin(caller, row=ROW), say="done")
    assert [one["name"] for one in listed["environments"]] == ["counting"]
    assert "gym view" in listed["missing"]
    assert (shown["readme"], [one["name"] for one in shown["tools"]]) == ("", ["add"])
    assert view["verdict"]["reason"] == "counted 0"


async def test_integers_of_any_size_reach_the_server_as_they_are(tmp_path: Path) -> None:
    async with counting(tmp_path) as (caller, _):
        body = b'{"server": "counting", "row": %b}' % orjson.dumps(ROW).replace(b'"goal":3', b'"goal":%d' % 2**70)
        view = (await caller.post(f"{API}/tries", body, **JSON)).body
        text = b'{"tool": "add", "arguments": {"number": %d}}' % 2**70
        await caller.post(f"{API}/tries/{view['id']}", text, **JSON)
        assert (await turn(caller, view, say="done"))["verdict"]["reward"] == 0.75
