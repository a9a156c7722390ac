"""What the program is called with, where it comes from, and what its ending means. tests/integration runs real ones."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from app import Ending, add_reason, describe_exit, make_response, task_text
from program import PROMPT_FILE, ProgramConfig, launch
from pydantic import ValidationError

from gym.server.agent import RunRow
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecResult

WORDS = {
    "prompt": "Say {key}.",
    "prompt_file": PROMPT_FILE,
    "workdir": "/repo",
    "model": "policy",
    "base_url": "http://127.1.2.3:8787",
    "key": "gym-1",
}


def program(**fields: Any) -> ProgramConfig:
    return ProgramConfig.model_validate({"command": ["agent", "{prompt}"], **fields})


def test_both_makers_clients_find_the_model_and_the_key_of_the_rollout() -> None:
    env = launch(program(env={"HOME": "{workdir}"}), WORDS).env
    assert env["OPENAI_BASE_URL"] == "http://127.1.2.3:8787/v1"
    assert env["ANTHROPIC_BASE_URL"] == "http://127.1.2.3:8787"
    assert (env["OPENAI_API_KEY"], env["ANTHROPIC_API_KEY"], env["HOME"]) == ("gym-1", "gym-1", "/repo")


def test_a_task_that_has_braces_of_its_own_stays_as_it_is() -> None:
    assert launch(program(), WORDS).argv[-1] == "Say {key}."


def test_the_prompt_goes_by_argument_by_file_or_by_stdin() -> None:
    assert (program().prompt_by, launch(program(), WORDS).stdin) == ("argument", b"")
    by_file = launch(program(command=["agent", "-f", "{prompt_file}"]), WORDS)
    assert (by_file.argv[-1], by_file.files) == (PROMPT_FILE, {PROMPT_FILE: "Say {key}."})
    assert launch(program(command=["agent"]), WORDS).stdin == b"Say {key}."


def test_settings_of_the_program_may_name_the_model() -> None:
    found = launch(program(files={"{workdir}/.agent.json": '{"url": "{base_url}"}'}), WORDS).files
    assert found == {"/repo/.agent.json": '{"url": "http://127.1.2.3:8787"}'}


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("npm:@scope/agent@1.2.3", "--prefix /opt/gym-agent @scope/agent@1.2.3 "),
        ("npm:agent", "--prefix /opt/gym-agent agent "),
        ("pip:my-agent[all]==2.0", "'my-agent[all]==2.0'"),
    ],
)
def test_a_package_is_installed_with_its_interpreter(package: str, line: str) -> None:
    dockerfile = program(package=package, base="mine:1").source()["build"].dockerfile
    assert dockerfile.startswith("FROM mine:1\n")
    assert line in dockerfile


@pytest.mark.parametrize("package", ["agent", "npm:a b", "npm:agent@1; rm -rf /", "cargo:agent"])
def test_what_is_not_a_package_is_refused_with_the_two_forms(package: str) -> None:
    with pytest.raises(ValidationError, match="write npm:NAME@VERSION or pip:NAME==VERSION"):
        program(package=package)


def test_what_a_package_uses_and_does_not_name_is_installed_with_it() -> None:
    made = program(package="pip:my-agent==2.0", requires=["mcp", "anyio==4.0"]).source()["build"].dockerfile
    assert "my-agent==2.0 mcp anyio==4.0\n" in made
    with pytest.raises(ValidationError, match="'-e .' is not a package"):
        program(package="pip:my-agent", requires=["-e ."])
    with pytest.raises(ValidationError, match="`requires` goes with `package`"):
        program(requires=["mcp"])


def test_a_program_has_one_source() -> None:
    with pytest.raises(ValidationError, match="`package` or from `image`"):
        program(package="npm:agent", image="mine:1")


def test_the_task_is_the_named_field_or_the_texts_of_the_input() -> None:
    row = RunRow(b"", {"problem_statement": "Fix it.", "responses_create_params": {"input": "other"}})
    assert task_text(row, "problem_statement") == "Fix it."
    assert task_text(row, "problem_statement", "It is dark.") == "Fix it.\n\nIt is dark."
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    row = RunRow(b"", {"responses_create_params": {"input": messages}})
    assert task_text(row, "problem_statement") == "Be brief.\n\nWhy?"
    assert task_text(row, "problem_statement", "It is dark.") == "Be brief.\n\nWhy?\n\nIt is dark."
    with pytest.raises(RolloutError, match="a text is needed"):
        task_text(RunRow(b"", {"responses_create_params": {"input": []}}), "problem_statement")


def test_an_exit_is_described_in_words() -> None:
    assert describe_exit(ExecResult(exit_code=0)) == ""
    assert describe_exit(ExecResult(exit_code=3)) == "it ended with exit code 3"
    assert describe_exit(ExecResult(signal=9)) == "it was ended by signal 9"
    assert describe_exit(ExecResult(signal=9, oom=True)) == "no memory was left to it"


def test_only_a_reward_of_0_without_a_reason_gets_the_programs() -> None:
    assert orjson.loads(add_reason(b'{"reward": 0.0}', "it crashed")) == {"reward": 0.0, "reason": "it crashed"}
    for body in (b'{"reward": 1.0}', b'{"reward": 0.0, "reason": "own"}'):
        assert add_reason(body, "it crashed") == body
    assert add_reason(b'{"reward": 0.0}', "") == b'{"reward": 0.0}'


def test_a_program_that_never_got_an_answer_has_an_empty_response() -> None:
    response = make_response([], Ending("it was ended: max_steps", "max_steps", 1.0))
    assert (response["output"], response["other_sequences"], response["truncated_by"]) == ([], [], "max_steps")
