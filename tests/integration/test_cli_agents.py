"""Command-line agents in a sandbox without network: their folder is verified, their tokens are what the model made."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gym.sandbox.broker_client import Sandbox
from gym.server import ResourcesServer, VerifyRequest
from gym.server.testing import Caller, running
from tests.support.cli_agent import PROGRAM, ROW, TINY, FolderTask, SaidTask, Stack, cli_stack
from tests.support.docker import need_engine
from tests.support.fake_vllm import Said

pytestmark = pytest.mark.asyncio(loop_scope="module")
SOLVE = ["echo 42 > answer.txt"]


def types(commands: list[str]) -> Callable[[list[dict[str, Any]]], Said]:
    """One command after another, then a word; a helper looks once."""

    def says(messages: list[dict[str, Any]]) -> Said:
        last = messages[-1]
        if messages[0]["content"] == "You help.":
            return Said("Seen.") if last["role"] == "tool" else Said(calls=[("sh", json.dumps({"command": "ls"}))])
        turns = sum(one["role"] == "assistant" for one in messages)
        turns += len(commands) - 1 if "So far" in str(messages[0]["content"]) else 0
        if turns >= len(commands):
            return Said("It is done.")
        return Said(calls=[("sh", json.dumps({"command": commands[turns]}))])

    return says


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with cli_stack(tmp_path_factory.mktemp("cli")) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tiny(stack: Stack) -> AsyncIterator[Caller]:
    async with stack.agent(TINY) as agent:
        yield agent


@pytest.fixture
def made(stack: Stack) -> list[tuple[list[int], list[int]]]:
    stack.vllm.made.clear()
    return stack.vllm.made


async def test_a_program_works_in_the_environments_folder_and_its_tokens_are_kept(
    stack: Stack, tiny: Caller, made: list[tuple[list[int], list[int]]]
) -> None:
    stack.vllm.says = types(SOLVE)
    reply = await tiny.post(
        "/run", {**ROW, "responses_create_params": {**ROW["responses_create_params"], "top_p": 0.5}}
    )
    assert reply.status == 200, reply.body
    assert (reply.body["reward"], reply.body["cli_agent"]["fault"]) == (1.0, "")
    output = reply.body["response"]["output"]
    assert [one["type"] for one in output] == ["function_call", "function_call_output", "message"]
    assert tokens(output) == made
    assert len(made) == 2
    assert reply.body["response"]["other_sequences"] == []
    assert [one["role"] for one in reply.body["responses_create_params"]["input"]] == ["system", "user"]
    asked = stack.vllm.bodies()[-1]
    assert (asked["temperature"], asked["top_p"]) == (0.5, 0.5)  # the row's own wins


async def test_sub_agents_and_a_compaction_are_sequences_of_their_own(
    stack: Stack, tiny: Caller, made: list[tuple[list[int], list[int]]]
) -> None:
    stack.vllm.says = types(["delegate", "compact", *SOLVE])
    reply = await tiny.post("/run", ROW)
    assert (reply.status, reply.body["reward"]) == (200, 1.0), reply.body
    helper, before = reply.body["response"]["other_sequences"]
    last = reply.body["response"]["output"]
    assert [one["calls"] for one in (helper, before)] == [[1, 2], [0, 3]]
    assert tokens(helper["output"]) == [made[1], made[2]]
    assert tokens(before["output"]) == [made[0], made[3]]
    assert tokens(last) == made[4:]
    assert len(made) == 6
    for sequence in (helper["output"], before["output"], last):
        assert_one_sequence(tokens(sequence))
    total = sum(len(prompt) + len(generation) for prompt, generation in made)
    assert reply.body["response"]["usage"]["total_tokens"] == total


@pytest.mark.parametrize(
    ("commands", "fields", "fault"),
    [
        ([], {}, "it ended with exit code 1"),
        (["kill -9 -1"], {}, "it was ended by signal 9"),
        (["true"] * 100, {"max_steps": 3}, "it was ended: max_steps"),
        (["true"] * 100, {"max_total_tokens": 1}, "it was ended: max_total_tokens"),
        (["sleep 1000"], {"program_seconds": 2}, "it was ended: program_seconds"),
    ],
)
async def test_what_the_program_does_to_itself_is_a_reward_with_its_reason(
    stack: Stack, commands: list[str], fields: dict[str, Any], fault: str
) -> None:
    stack.vllm.says = types(commands)
    crashes = {**TINY, "files": {"/tmp/tiny.py": PROGRAM.replace("return said", "raise SystemExit(1) #")}}
    reply = await stack.run(TINY if commands else crashes, **fields)
    assert reply.status == 200, reply.body
    assert (reply.body["reward"], reply.body["reason"]) == (0.0, fault)
    assert reply.body["response"].get("truncated_by", "") == next(iter(fields), "")
    assert tokens(reply.body["response"]["output"])


async def test_a_task_may_give_its_program_less_time(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    def advertise(self: FolderTask, state: Sandbox) -> dict[str, Any]:
        return {"sandbox_handle": {**state.share(), "seconds": 2.0}}

    monkeypatch.setattr(FolderTask, "advertise", advertise)
    stack.vllm.says = types(["sleep 1000"])
    reply = await stack.run(TINY)
    assert (reply.body["reward"], reply.body["reason"]) == (0.0, "it was ended: program_seconds")


async def test_its_files_lie_in_folders_that_it_may_write_to(stack: Stack) -> None:
    stack.vllm.says = types([*SOLVE, "touch /tmp/of/the/program/mine"])
    program = "/tmp/of/the/program/tiny.py"
    reply = await stack.run({"command": ["python3", program, "{prompt}"], "files": {program: PROGRAM}})
    assert (reply.status, reply.body["reward"]) == (200, 1.0), reply.body
    refused = await stack.run({**TINY, "files": {"/tmp/tiny.py": PROGRAM, "/proc/of/no/one": ""}})
    assert (refused.status, refused.body["error"]["kind"], refused.body["error"]["retryable"]) == (500, "agent", False)
    assert "program.files" in refused.body["error"]["message"]


async def test_a_program_reads_what_the_environment_shows_first(
    stack: Stack, tiny: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def advertise(self: FolderTask, state: Sandbox) -> dict[str, Any]:
        return {"sandbox_handle": state.share(), "observation": "The file is answer.txt."}

    monkeypatch.setattr(FolderTask, "advertise", advertise)
    asked: list[str] = []

    def says(messages: list[dict[str, Any]]) -> Said:
        asked.append(json.dumps(messages))
        return types(SOLVE)(messages)

    stack.vllm.says = says
    reply = await tiny.post("/run", ROW)
    assert (reply.status, reply.body["reward"]) == (200, 1.0), reply.body
    assert "The file is answer.txt." in asked[0]


class PressTask(ResourcesServer[str]):
    """It is worked with by a tool, known once a rollout has begun."""

    async def seed(self, row: Any) -> str:
        return "unpressed"

    def advertise(self, state: str) -> dict[str, Any]:
        return {"tools": [{"type": "function", "name": "press"}]}

    async def verify(self, rollout: VerifyRequest, state: str) -> float:
        return float(state == "pressed")


async def test_tools_that_no_program_can_call_are_a_failure_and_no_reward(stack: Stack) -> None:
    async with running(PressTask.app({}, name="env")) as environment:
        reply = await stack.run(TINY, environment=environment, own_sandbox={"image": "host"})
    assert (reply.status, reply.body["error"]["kind"], reply.body["error"]["retryable"]) == (500, "agent", False)
    assert "(press)" in reply.body["error"]["message"]


async def test_what_a_program_left_behind_counts_even_if_it_crashed(stack: Stack, tiny: Caller) -> None:
    stack.vllm.says = types([*SOLVE, "kill -9 -1"])
    reply = await tiny.post("/run", ROW)
    assert (reply.body["reward"], reply.body["cli_agent"]["fault"]) == (1.0, "it was ended by signal 9")
    assert not reply.body.get("reason")


async def test_a_model_that_fails_is_a_failure_however_the_program_takes_it(stack: Stack) -> None:
    stack.vllm.says = types(SOLVE)
    careless = PROGRAM.replace("print(work(", "import contextlib\nwith contextlib.suppress(OSError): print(work(")
    stack.vllm.status = (500, {"error": {"message": "out of order"}})
    try:
        reply = await stack.run({**TINY, "files": {"/tmp/tiny.py": careless}})
    finally:
        stack.vllm.status = None
    assert reply.status >= 500
    assert (reply.body["error"]["kind"], reply.body["error"]["retryable"]) == ("model", True)


async def test_a_program_that_asks_nothing_is_a_failure_of_the_configuration(stack: Stack) -> None:
    reply = await stack.run({"command": ["no-such-program", "{prompt}"]})
    assert (reply.status, reply.body["error"]["kind"], reply.body["error"]["retryable"]) == (500, "agent", False)
    assert "no-such-program" in reply.body["error"]["message"]


async def test_an_environment_without_a_sandbox_judges_what_the_same_program_said(stack: Stack) -> None:
    stack.vllm.says = types(SOLVE)
    async with running(SaidTask.app({}, name="env")) as environment:
        refused = await stack.run(TINY, environment=environment)
        reply = await stack.run(TINY, environment=environment, own_sandbox={"image": "host"})
    assert (refused.status, refused.body["error"]["kind"]) == (500, "agent")
    assert "own_sandbox" in refused.body["error"]["message"]
    assert (reply.status, reply.body["reward"]) == (200, 1.0), reply.body


@pytest.mark.docker
async def test_a_sandbox_that_its_program_fills_beyond_its_disk_is_a_reward_of_0(tmp_path: Path) -> None:
    need_engine()
    fill = "dd if=/dev/zero of=/work/big bs=1M count=400; sleep 1000"
    spec = {"workdir": "/work", "limits": {"disk": "64m"}}
    async with cli_stack(tmp_path, "docker", image="python:3.13-slim", spec=spec) as made:
        made.vllm.says = types([fill])
        reply = await made.run(TINY)
    assert reply.status == 200, reply.body
    assert reply.body["reward"] == 0.0
    assert "its sandbox ended" in reply.body["reason"]


async def test_inside_there_is_one_model_behind_one_key_and_nothing_else(stack: Stack) -> None:
    stack.vllm.says = types([])
    look = LOOK.replace("BROKER", stack.broker.url.rpartition(":")[2])
    look = look.replace("MODEL", str(stack.model.address["port"]))
    reply = await stack.run({"command": ["python3", "/tmp/look.py"], "files": {"/tmp/look.py": look}})
    assert reply.status == 200, reply.body
    seen = json.loads(reply.body["cli_agent"]["stdout"])
    assert seen["wrong key"] == 401
    assert (seen["another path"], seen["a session"]) == (404, 404)
    assert seen["models"] == ["policy"]
    assert (seen["the broker"], seen["the model server"]) == ("refused", "refused")


LOOK = """
import json, os, urllib.error, urllib.request

URL, KEY = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
ASK = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}

def post(url, body, key):
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"authorization": "Bearer " + key})
    try:
        with urllib.request.urlopen(asked, timeout=60) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return "refused"

assert post(URL + "/chat/completions", ASK, KEY) == 200
print(json.dumps({
    "wrong key": post(URL + "/chat/completions", ASK, "sk-other"),
    "another path": post(URL.removesuffix("/v1") + "/run", {}, KEY),
    "a session": post(URL.removesuffix("/v1") + "/sessions/another/v1/chat/completions", ASK, KEY),
    "models": [one["id"] for one in json.load(urllib.request.urlopen(URL + "/models"))["data"]],
    "the broker": post("http://127.0.0.1:BROKER/sandboxes", {}, KEY),
    "the model server": post("http://127.0.0.1:MODEL/v1/chat/completions", ASK, KEY),
}))
"""


def tokens(output: list[dict[str, Any]]) -> list[tuple[list[int], list[int]]]:
    held = [one for one in output if one.get("generation_token_ids")]
    assert all(len(one["generation_log_probs"]) == len(one["generation_token_ids"]) for one in held)
    return [(one["prompt_token_ids"], one["generation_token_ids"]) for one in held]


def assert_one_sequence(calls: list[tuple[list[int], list[int]]]) -> None:
    """Each prompt begins with the one before it and what was generated: what trainers ask of a sequence."""
    for (prompt, generation), (following, _) in itertools.pairwise(calls):
        assert following[: len(prompt) + len(generation)] == prompt + generation
