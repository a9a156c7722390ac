"""The agents that do more than one loop, as a user configures them: a real local stack, and its rollouts afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.testing import GymStack
from tests.support.cli import gym

SERVERS = Path(__file__).parents[2] / "servers"
STACK = """
user_model:
  responses_api_models:
    scripted:
      entrypoint: app.py
      rules:
        - when: {user: 'have deleted'}
          say: "Thank you. ###STOP###"
        - when: {user: 'Shall I'}
          say: "Yes, do."
        - when: {}
          say: "Delete my newest mail, please."
office_user_sim_agent:
  responses_api_agents:
    user_sim_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: workplace_assistant}
      model_server: {type: responses_api_models, name: policy_model}
      user_model_server: {type: responses_api_models, name: user_model}
policy_model:
  responses_api_models:
    scripted:
      entrypoint: app.py
      rules:
        - when: {user: 'newest mail', tools: [email_search_emails]}
          call: {name: email_search_emails, arguments: {query: "", page_size: 1}}
        - when: {called: email_search_emails}
          say: "I have found it. Shall I?"
        - when: {user: 'do\\.', tools: [email_delete_email]}
          call: {name: email_delete_email, arguments: {email_id: "00000481"}}
        - when: {called: email_delete_email}
          say: "I have deleted it."
        - when: {tools: [ask_researcher, ask_critic]}
          call:
            - {name: ask_researcher, arguments: {task: "{user}"}}
            - {name: ask_critic, arguments: {task: "{user}"}}
        - when: {user: '\\\\boxed'}
          say: "\\\\boxed{{pick:ABCD}}"
        - when: {user: 'subtract the number'}
          say: "10"
        - when: {}
          say: "It is the Tagus, or 51, or the lantern."
"""
NAMES = ("workplace_assistant", "research_team", "multi_turn")


@dataclass
class Stack:
    folder: Path

    def collect(self, rows: str, *words: str) -> Path:
        """The rollouts of a file or a server's examples."""
        path = self.folder / f"{Path(rows).stem}_out.jsonl"
        done = gym("rollouts", rows, "-o", path.name, "--max-attempts", "1", *words, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return path

    def holds(self, path: Path) -> dict[str, Any]:
        """What is made of them afterwards agrees with what was recorded; first the output of `gym replay`."""
        again = gym("reverify", path.name, cwd=self.folder)
        assert again.returncode == 0, again.stdout + again.stderr
        replayed = gym("replay", path.name, "--json", cwd=self.folder)
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
        output: dict[str, Any] = json.loads(replayed.stdout)
        return output

    def page(self, path: Path) -> str:
        done = gym("view", path.name, "-o", "page.html", cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return (self.folder / "page.html").read_text("utf-8")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("agents")
    (folder / "mine.yaml").write_text(STACK)
    with GymStack(*NAMES, runtime="local").with_config(folder / "mine.yaml") as up:
        yield Stack(up.folder)


def office_row(user: dict[str, Any]) -> dict[str, Any]:
    (first, *_) = read(SERVERS / "resources" / "workplace_assistant" / "data" / "example.jsonl")
    truth = [{"name": "email_delete_email", "arguments": '{"email_id": "00000481"}'}]
    params = {**first["responses_create_params"], "input": [{"role": "system", "content": "You help in an office."}]}
    ref = {"type": "responses_api_agents", "name": "office_user_sim_agent"}
    return {**first, "responses_create_params": params, "ground_truth": truth, "user": user, "agent_ref": ref}


def write(path: Path, rows: Iterable[dict[str, Any]]) -> str:
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in rows))
    return path.name


def read(path: Path) -> list[dict[str, Any]]:
    found = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    return sorted(found, key=lambda one: int(one.get("_ng_task_index", 0)))


def roles(output: list[dict[str, Any]]) -> list[str]:
    return [str(item.get("role") or item["type"]) for item in output]


def test_a_simulated_user_talks_until_the_office_is_as_it_should_be(stack: Stack) -> None:
    goal = "to have the newest mail deleted"
    users: list[Any] = [
        {"goal": goal},
        {"goal": goal, "opening": "Delete my newest mail.", "max_turns": 1},
        {"persona": "No goal."},
    ]
    path = stack.collect(write(stack.folder / "office.jsonl", map(office_row, users)))
    whole, short = read(path)
    tool = ["function_call", "function_call_output", "assistant"]
    assert roles(whole["response"]["output"]) == ["user", *tool, "user", *tool, "user"]
    assert (whole["reward"], whole["response"]["user_simulation"]["ended_by"]) == (1.0, "user")
    assert "STOP" not in json.dumps(whole["response"]["output"])
    assert (short["reward"], short["response"]["user_simulation"]["ended_by"]) == (0.0, "max_turns")
    (failed,) = read(stack.folder / "office_out_failures.jsonl")
    assert (failed["kind"], failed["message"].partition(";")[0]) == ("row", "user: goal: Field required")
    assert stack.holds(path)["calls"] == 3
    assert "Delete my newest mail, please." in stack.page(path)


def test_a_team_answers_its_example_rows_and_what_a_colleague_said_is_kept(stack: Stack) -> None:
    path = stack.collect("research_team")
    rollouts = read(path)
    assert len(rollouts) == 5
    for one in rollouts:
        calls = one["response"]["agent_calls"]
        outputs = [item["output"] for item in one["response"]["output"] if item["type"] == "function_call_output"]
        assert [call["agent"] for call in calls] == ["team_researcher", "team_critic"]
        assert [call["response"]["output"][-1]["content"][0]["text"] for call in calls] == outputs
    assert {one["reward"] for one in rollouts} == {0.0, 1.0}
    assert stack.holds(path)["calls"] == 0  # of tools: none of these was one
    assert "ask_researcher" in stack.page(path)


def test_episodes_are_played_to_their_end_and_verified_again_without_their_session(stack: Stack) -> None:
    path = stack.collect("multi_turn")
    rollouts = read(path)
    assert [one["reward"] for one in rollouts] == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert [len(one["step_rewards"]) for one in rollouts] == [3, 2, 1, 3, 3]
    assert all(one["terminated"] and not one["truncated"] for one in rollouts)
    assert roles(rollouts[0]["response"]["output"]) == ["assistant", "user", "assistant", "user", "assistant"]
    stack.holds(path)
    assert "Now subtract the number" in stack.page(path)
