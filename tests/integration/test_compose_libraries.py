"""Libraries that play, list their tools or bring their tasks themselves, on Compose: rollouts and their rewards."""

from __future__ import annotations

import base64
import json
import re
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from gym.broker.providers.docker.image_build import build_tag
from gym.testing import GymStack
from gym.wire.sandbox import Build
from tests.support.cli import gym
from tests.support.cli_agent import TINY
from tests.support.docker import engine_client, eventually, need_engine, remove_images_of
from tests.support.harbor import HARBOR
from tests.support.sandbox_stack import NOTHING, labelled
from tests.support.shipped import folder_of, rows_of

pytestmark = [pytest.mark.docker, pytest.mark.long]
TIMEOUT = 1800.0
Row = dict[str, Any]


@contextmanager
def compose_stack(folder: Path, rules: list[Row], *words: str, **more: Any) -> Iterator[None]:
    """With a policy that follows the rules, and what `more` configures besides."""
    need_engine()
    policy = {"entrypoint": "app.py", "rules": rules, "fallback": "error", "return_token_id_information": True}
    document = {"policy_model": {"responses_api_models": {"scripted": policy}}, **more}
    (folder / "more.yaml").write_text(yaml.safe_dump(document))
    try:
        with GymStack(*words, model=None, runtime="compose", folder=folder).with_config("more.yaml"):
            yield
    finally:
        left = labelled(folder)
        remove_images_of(folder)
    assert left == NOTHING


def roll_out(folder: Path, agent: str, rows: list[Row]) -> list[Row]:
    """In the order of the rows; none fails."""
    given, done = folder / f"{agent}.jsonl", folder / f"{agent}_done.jsonl"
    named = {"agent_ref": {"type": "responses_api_agents", "name": agent}}
    given.write_text("".join(json.dumps(row | named) + "\n" for row in rows))
    ended = gym("rollouts", str(given), "-o", str(done), "--max-attempts", "1", cwd=folder, timeout=TIMEOUT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = [json.loads(line) for line in done.read_text().splitlines()]
    return sorted(found, key=lambda one: int(one["_ng_task_index"]))


def prompt_of(row: Row) -> str:
    """A pattern of its own words, on their first line."""
    last: str = row["responses_create_params"]["input"][-1]["content"]
    return re.escape(last.splitlines()[0])


def turn(digits: list[int]) -> Row:
    return {"name": "turn_lock", "arguments": {"digits": digits}}


def test_libraries_play_in_containers_of_their_own_and_list_their_tools(tmp_path: Path) -> None:
    plays, legacy = rows_of("verifiers")[:2], rows_of("verifiers_legacy")[:2]
    secret = runpy.run_path(str(folder_of("openenv") / "lock" / "rules.py"))["secret_of"](7)
    answer = plays[0]["task"]["answer"]
    wrong = [digit % 6 + 1 for digit in secret]
    rules: list[Row] = [
        {"when": {"user": prompt_of(plays[0])}, "say": f"\\boxed{{{{pick:{answer}|{answer}}}}}"},  # no name in braces
        {"when": {"user": prompt_of(legacy[0])}, "say": f"<answer>{legacy[0]['example']['answer']}</answer>"},
        {"when": {"tools": ["turn_lock"], "after": 0}, "call": [turn(wrong), turn(secret)]},
        {"when": {}, "say": "I do not know."},
    ]
    lock = {"responses_create_params": {"input": "Open the lock."}, "reset": {"seed": 7, "tries": 4}}
    with compose_stack(tmp_path, rules, "verifiers", "verifiers_legacy", "openenv_tools"):
        for agent, rows in (("verifiers_play_agent", plays), ("verifiers_legacy_play_agent", legacy)):
            done = roll_out(tmp_path, agent, rows)
            assert [one["reward"] for one in done] == [1.0, 0.0]
            assert all(one["response"]["output"][-1]["generation_token_ids"] for one in done)
        (opened,) = roll_out(tmp_path, "openenv_tools_simple_agent", [lock])
    assert (opened["reward"], opened["terminated"], opened["num_calls"]) == (1.0, True, 2)


def test_agents_that_know_nothing_of_harbor_solve_its_tasks(tmp_path: Path) -> None:
    """One that calls tools and one that is a program; images are built as soon as the server starts (`prepare`)."""
    lines = (HARBOR / "data" / "verifier_cases.jsonl").read_text("utf-8").splitlines()
    oracles = [one for one in map(json.loads, lines) if one.get("oracle")]
    cases = {one["request"]["instance_id"]: one for one in oracles}
    rows = [row for row in rows_of("harbor") if row["instance_id"] in ("compose-gym/tally-log", "tb-slugs")]
    rules: list[Row] = [{"when": {"called": "sh"}, "say": "It is done."}]
    for row in rows:
        script = cases[row["instance_id"]]["steps"][0]["arguments"]["command"]
        typed = f"echo {base64.b64encode(script.encode()).decode()} | base64 -d | bash"  # braces would be a template's
        submit = {"name": "submit", "arguments": {}}
        for tool, after in (("bash", [submit]), ("sh", [])):
            call = {"name": tool, "arguments": {"command": typed}}
            rules.append({"when": {"tools": [tool], "user": prompt_of(row)}, "call": [call, *after]})
    program = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": "harbor"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        "sandbox": {"images": ["python:3.13-slim"], "warm": 0},
        "program": TINY,
    }
    more = {
        "tiny": {"responses_api_agents": {"cli_agent": program}},
        "harbor": {"resources_servers": {"harbor": {"prepare": "data/example.jsonl"}}},
    }
    named = "++swe_tools.responses_api_agents.swe_tools.resources_server.name=harbor"
    with compose_stack(tmp_path, rules, "harbor", "swe_tools", named, **more):
        for row in rows:
            eventually(partial(has_image, build_tag(Build.model_validate(row["build"]))), bool)
        for agent in ("swe_tools", "tiny"):
            assert [one["reward"] for one in roll_out(tmp_path, agent, rows)] == [1.0, 1.0]


def has_image(tag: str) -> bool:
    with engine_client() as client:
        return bool(client.images.list(filters={"reference": tag}))
