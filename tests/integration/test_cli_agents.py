"""Command-line agents in a sandbox without network: their folder is verified, their tokens are what the model made."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from tests.support.cli_agent import PROGRAM, ROW, Stack, cli_stack
from tests.support.fake_vllm import Said

pytestmark = pytest.mark.asyncio(loop_scope="module")
TINY = {"command": ["python3", "/tmp/tiny.py", "{prompt}"], "files": {"/tmp/tiny.py": PROGRAM}}
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


@pytest.fixture
def made(stack: Stack) -> list[tuple[list[int], list[int]]]:
    stack.vllm.made.clear()
    return stack.vllm.made


async def test_a_program_works_in_the_environments_folder_and_its_tokens_are_kept(
    stack: Stack, made: list[tuple[list[int], list[int]]]
) -> None:
    stack.vllm.says = types(SOLVE)
    reply = await stack.run(TINY, {**ROW, "responses_create_params": {**ROW["responses_create_params"], "top_p": 0.5}})
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


def tokens(output: list[dict[str, Any]]) -> list[tuple[list[int], list[int]]]:
    held = [one for one in output if one.get("generation_token_ids")]
    assert all(len(one["generation_log_probs"]) == len(one["generation_token_ids"]) for one in held)
    return [(one["prompt_token_ids"], one["generation_token_ids"]) for one in held]
