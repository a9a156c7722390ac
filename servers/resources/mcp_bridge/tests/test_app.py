"""mcp_bridge with a server that misbehaves on demand: who is to blame, what the model reads, what is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from app import McpBridge
from generate import TimeRows
from mcp_client import compare_tools, read_output

from gym.errors import ConfigError
from gym.server import ServerApp
from gym.server.generating import generate, prove
from gym.server.testing import Answered, Caller, running
from gym.wire.items import message, response

HERE = Path(__file__).parent
SCRIPT = HERE / "scripted_server.py"
ASKED = {"responses_create_params": {"input": "Do it."}}
ECHOED = ASKED | {"expected_calls": [{"name": "echo", "arguments": {"text": "a"}}]}
LATE = 120.0  # only what hangs takes so long


@asynccontextmanager
async def bridge(*options: str, **fields: Any) -> AsyncIterator[Caller]:
    """`fields` over the default, which is a scripted server whose expected calls are made."""
    configured = {"command": [sys.executable, "-I", "-S", str(SCRIPT), *options], **fields}
    async with running(McpBridge.app(configured, name="bridge")) as url, Caller(url) as caller:
        yield caller


def said(text: str, row: dict[str, Any] = ECHOED) -> dict[str, Any]:
    return row | {"response": response([message(text)], model="m")}


def failure(reply: Answered) -> tuple[str, bool]:
    assert reply.status >= 400, reply.body
    assert "reward" not in reply.body
    return reply.body["error"]["kind"], reply.body["error"]["retryable"]


async def holds(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LATE):
        while not condition():
            await asyncio.sleep(0.02)


def lives(pid: int) -> bool:
    """A zombie whose parent is not ours to hurry has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_every_tool_of_every_page_is_offered_and_called_by_a_name_that_a_route_can_have() -> None:
    async with bridge() as caller:
        offered = (await caller.post("/seed_session", ECHOED)).body["tools"]
        assert [one["name"] for one in offered][-1] == "fs_read"
        assert len(offered) == 10
        assert (await caller.post("/echo", {"text": "a"})).body == b"a"
        assert (await caller.post("/fs_read", {"text": "b"})).body == b"b"
        verified = (await caller.post("/verify", said("done"))).body
    assert (verified["reward"], verified["num_calls"]) == (1.0, 2)


async def test_what_a_tool_refuses_is_the_models_to_read_and_no_expected_call() -> None:
    row = ASKED | {"expected_calls": [{"name": "refuse", "arguments": {"text": "x"}}]}
    async with bridge() as caller:
        await caller.post("/seed_session", row)
        assert (await caller.post("/refuse", {"text": "x"})).body == {"error": "no x"}
        assert (await caller.post("/rpc_error", {})).body == {"error": "these arguments cannot be"}
        assert (await caller.post("/echo", b"[1")).body == {"error": "The arguments are not a JSON object."}
        verified = (await caller.post("/verify", said("done", row))).body
    assert (verified["reward"], verified["reason"]) == (0.0, "the expected call of refuse was not made")


async def test_an_error_that_the_configuration_names_is_a_failure() -> None:
    async with bridge(infrastructure_errors=["^no x"]) as caller:
        await caller.post("/seed_session", ECHOED)
        assert (await caller.post("/refuse", {"text": "y"})).status == 200
        assert failure(await caller.post("/refuse", {"text": "x"})) == ("resources", True)


async def test_a_server_that_dies_is_a_failure_of_its_rollout_alone_and_its_last_words_are_reported() -> None:
    async with bridge() as one, Caller(one.url) as other:
        await one.post("/seed_session", ECHOED)
        await other.post("/seed_session", ECHOED)
        died = await one.post("/die")
        assert failure(died) == ("resources", True)
        assert "exit code 9; it said: out of luck" in died.body["error"]["message"]
        assert failure(await one.post("/echo", {"text": "a"})) == ("resources", True)
        assert (await other.post("/echo", {"text": "a"})).body == b"a"
        assert (await other.post("/verify", said("done"))).body["reward"] == 1.0


async def test_a_server_that_died_after_the_last_call_is_a_failure_and_no_reward() -> None:
    async with bridge() as caller:
        await caller.post("/seed_session", ECHOED)
        await caller.post("/echo", {"text": "a"})
        await caller.post("/die")
        assert failure(await caller.post("/verify", said("done"))) == ("resources", True)


async def test_a_server_that_hangs_is_a_timeout() -> None:
    async with bridge(call_seconds=0.2) as caller:
        await caller.post("/seed_session", ECHOED)
        assert failure(await caller.post("/hang")) == ("timeout", True)


async def test_tools_that_change_in_mid_run_are_a_failure_unless_they_may(tmp_path: Path) -> None:
    other = tmp_path / "other"
    async with bridge("--other", str(other)) as caller, Caller(caller.url) as late:
        await caller.post("/seed_session", ECHOED)
        await caller.post("/echo", {"text": "a"})
        other.touch()
        changed = await caller.post("/verify", said("done"))
        assert failure(changed) == ("resources", False)
        assert "gone: echo" in changed.body["error"]["message"]
        assert failure(await late.post("/seed_session", ECHOED)) == ("resources", False)
    other.unlink()
    async with bridge("--other", str(other), tools_may_change=True) as caller:
        other.touch()
        tools = (await caller.post("/seed_session", ECHOED)).body["tools"]
        assert "echo" not in {one["name"] for one in tools}


async def test_a_refusal_of_a_server_that_has_changed_is_not_the_models_to_read(tmp_path: Path) -> None:
    other = tmp_path / "other"
    async with bridge("--other", str(other)) as caller:
        await caller.post("/seed_session", ECHOED)
        other.touch()
        assert failure(await caller.post("/refuse", {"text": "x"})) == ("resources", False)


async def test_noise_and_requests_of_the_server_do_no_harm() -> None:
    async with bridge() as caller:
        await caller.post("/seed_session", ECHOED)
        assert (await caller.post("/chatter")).body == [["id", "result"], ["error", "id"]]


async def test_what_no_server_of_today_should_answer_is_a_failure() -> None:
    async with bridge() as caller:
        await caller.post("/seed_session", ECHOED)
        assert failure(await caller.post("/no_method")) == ("resources", False)


@pytest.mark.parametrize(
    ("options", "fields", "words"),
    [
        (("--version", "2099-01-01"), {}, "it speaks MCP '2099-01-01'; this bridge speaks 2025-11-25"),
        (("--silent", ""), {"start_seconds": 0.2}, "initialize: it did not answer within 0.2 s"),
        (("--end", ""), {}, "exit code 3; it said: no licence was found"),
        ((), {"command": ["no-such-program"]}, "cannot start no-such-program: No such file or directory"),
        ((), {"command": [], "url": "http://127.0.0.1:1/mcp"}, "http://127.0.0.1:1/mcp cannot be reached"),
        ((), {"allow": ["echo", "ecko"]}, "the MCP server has no tool 'ecko'"),
    ],
)
async def test_a_server_that_cannot_be_bridged_is_reported_at_the_start(
    options: tuple[str, ...], fields: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RuntimeError):
        async with bridge(*options, **fields):
            pass
    assert words in caplog.text


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"command": ["a"], "url": "http://b"},
        {"command": ["a"], "verify": {}},
        {"url": "http://b", "infrastructure_errors": ["("]},
    ],
)
async def test_a_configuration_that_says_nothing_or_too_much_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        await McpBridge.app(fields, name="bridge").start()


async def test_allow_and_deny_decide_what_the_model_may_call() -> None:
    for fields, names in (({"allow": ["echo"]}, ["echo"]), ({"allow": ["echo", "die"], "deny": ["die"]}, ["echo"])):
        async with bridge(**fields) as caller:
            tools = (await caller.post("/seed_session", ECHOED)).body["tools"]
            assert [one["name"] for one in tools] == names
            assert (await caller.post("/die")).status == 404


@pytest.mark.parametrize(
    ("worth", "outcome"), [(0.25, 0.25), (True, 1.0), ("false", 0.0), ("nan", "resources"), ({}, "resources")]
)
async def test_a_check_tool_is_asked_at_the_end_and_not_offered(worth: Any, outcome: Any) -> None:
    row = ASKED | {"check_arguments": {"worth": worth}}
    async with bridge(verify={"check_tool": "grade"}) as caller:
        tools = (await caller.post("/seed_session", row)).body["tools"]
        assert "grade" not in {one["name"] for one in tools}
        assert (await caller.post("/grade", {"worth": 1.0})).status == 404
        reply = await caller.post("/verify", said("", row))
    assert reply.body.get("reward", reply.body.get("error", {}).get("kind")) == outcome


@pytest.mark.parametrize(
    ("texts", "calls", "reward"),
    [(["a"], "exactly", 1.0), (["a", "b"], "exactly", 0.0), (["b", "a"], "made", 1.0), (["b"], "made", 0.0)],
)
async def test_expected_calls_are_those_that_were_made_here(texts: list[str], calls: str, reward: float) -> None:
    async with bridge(verify={"calls": calls}) as caller:
        await caller.post("/seed_session", ECHOED)
        for text in texts:
            await caller.post("/echo", {"text": text})
        assert (await caller.post("/verify", said("done"))).body["reward"] == reward


async def test_a_row_without_what_verify_looks_at_is_the_rows_fault() -> None:
    async with bridge() as caller:
        reply = await caller.post("/seed_session", ASKED)
    assert failure(reply) == ("row", False)
    assert "expected_calls: Field required" in reply.body["error"]["message"]


async def test_each_rollout_has_a_process_and_a_folder_of_its_own_which_end_with_it() -> None:
    async with bridge() as one, Caller(one.url) as other:
        pids, folders = set(), []
        for caller in (one, other):
            await caller.post("/seed_session", ECHOED)
            pids.update((await caller.post("/spawn")).body)
            folders.append(Path((await caller.post("/echo")).body.decode()))
        assert len(pids) == 4
        assert folders[0] != folders[1]
        assert all(lives(pid) for pid in pids)
        await one.post("/verify", said("done"))
        await other.post("/close_session")
        await holds(lambda: not any(lives(pid) for pid in pids))
        assert not any(folder.exists() for folder in folders)


async def test_a_shared_server_is_one_process_that_is_started_again_when_it_died() -> None:
    async with bridge(shared=True) as one, Caller(one.url) as other:
        await one.post("/seed_session", ECHOED)
        await other.post("/seed_session", ECHOED)
        first = (await one.post("/spawn")).body[0]
        assert (await other.post("/spawn")).body[0] == first
        await one.post("/close_session")
        assert (await other.post("/spawn")).body[0] == first
        await other.post("/die")
        assert failure(await other.post("/echo")) == ("resources", True)
        await one.post("/seed_session", ECHOED)
        second = (await one.post("/spawn")).body
        assert second[0] != first
    await holds(lambda: not any(lives(pid) for pid in second))


async def test_nothing_is_left_when_the_bridge_stops_or_a_rollout_never_ends_its_session() -> None:
    async with bridge() as caller:
        await caller.post("/seed_session", ECHOED)
        pids = (await caller.post("/spawn")).body
    await holds(lambda: not any(lives(pid) for pid in pids))


async def test_nothing_is_left_when_the_bridge_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid_file = tmp_path / "pids"
    program = f"""
import asyncio, json, sys
sys.path[:0] = {[str(HERE), str(HERE.parent)]!r}
from pathlib import Path
from test_app import ECHOED, bridge

async def main():
    async with bridge() as caller:
        await caller.post("/seed_session", ECHOED)
        Path({str(tmp_path / "new")!r}).write_text(json.dumps((await caller.post("/spawn")).body))
        Path({str(tmp_path / "new")!r}).rename({str(pid_file)!r})
        await asyncio.Event().wait()

asyncio.run(main())
"""
    # Where this run has its pytest from, and where the folders stay until the next bridge starts.
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", program], env=environ)
    try:
        await holds(lambda: pid_file.exists() or process.poll() is not None)
        pids = json.loads(pid_file.read_text())
        assert all(lives(pid) for pid in pids)
    finally:
        process.kill()
        process.wait()
    await holds(lambda: not any(lives(pid) for pid in pids))
    assert len([*tmp_path.glob("gym-mcp-*/rollout-*")]) == 1
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with bridge() as caller, bridge() as other:
        await caller.post("/seed_session", ECHOED)
        await other.post("/seed_session", ECHOED)
        assert len([*tmp_path.glob("gym-mcp-*/rollout-*")]) == 2  # those of the two that live
    assert not [*tmp_path.glob("gym-*")]


def test_what_a_tool_says_becomes_what_the_model_reads() -> None:
    image = {"type": "image", "data": "aaaa", "mimeType": "image/png"}
    resource = {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}
    assert read_output({"content": [{"type": "text", "text": "a"}, image, resource]}) == (
        "a\n[image image/png: no text]\ninside"
    )
    assert read_output({"content": [], "structuredContent": {"a": 1}}) == {"a": 1}
    assert read_output({"content": [], "structuredContent": {"result": [1, 2]}}) == [1, 2]
    assert read_output({}) == ""


def test_a_change_of_tools_is_described_by_their_names() -> None:
    tool = {"description": "", "parameters": {}}
    before = {"a": tool, "b": tool}
    assert compare_tools(before, dict(before)) == ""
    assert compare_tools(before, {"b": {**tool, "description": "x"}, "c": tool}) == "gone: a; new: c; other: b"


async def test_a_long_text_is_cut_for_the_model() -> None:
    async with bridge(max_output=10) as caller:
        await caller.post("/seed_session", ECHOED)
        assert (await caller.post("/echo", {"text": "x" * 25})).body == b"x" * 10 + b"\n[15 more characters]"


async def test_made_rows_are_paid_by_the_real_server_and_an_empty_answer_is_not(app: ServerApp) -> None:
    for difficulty in TimeRows.difficulties:
        made = generate(TimeRows(), 1, seed=4, split="train", difficulty=difficulty)
        assert (await prove(app, made, fields=FIELDS)).holds


FIELDS = {
    "command": ["python", "-m", "mcp_server_time", "--local-timezone", "UTC"],
    "verify": {"answer": {"take": "tag", "tag": "answer"}, "calls": "made"},
}
