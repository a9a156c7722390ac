"""The HTTP calls of published training scripts, as they make them: addresses out of the head server's document,
put together by `http://{host}:{port}` and a path. TRL's asks agents, Unsloth's asks environments.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

from gym.pytest_plugin import StackStarts

ROWS = Path(__file__).parents[2] / "servers" / "resources" / "mcqa" / "data" / "example.jsonl"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def head(gym_stack: StackStarts) -> str:
    return gym_stack("mcqa", "simple_weather", model="scripted", runtime="local").url


def send(url: str, body: Json | None = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data=data, headers={"content-type": "application/json"}), timeout=60) as reply:
        return reply.status, reply.read()


def by_json(body: bytes) -> Any:
    return yaml.safe_load(json.loads(body))


def by_yaml(body: bytes) -> Any:
    """A text read as YAML is a text again, which OmegaConf then reads as YAML."""
    return yaml.safe_load(yaml.safe_load(body))


@pytest.mark.parametrize("read", [by_json, by_yaml])
def test_agents_are_found_and_run_as_trl_does_it(head: str, read: Callable[[bytes], Any]) -> None:
    document = read(send(f"{head}/global_config_dict_yaml")[1])
    agents: dict[str, str] = {}
    for name, server in document.items():
        for one in (server.get("responses_api_agents") or {}).values() if isinstance(server, dict) else ():
            here = "127.0.0.1" if one["host"] in ("127.0.0.1", "0.0.0.0", "localhost") else one["host"]
            agents[name] = f"http://{here}:{one['port']}"
    assert sorted(agents) == ["mcqa_simple_agent", "simple_weather_simple_agent"]
    for line in ROWS.read_text("utf-8").splitlines():
        row = json.loads(line)
        row["responses_create_params"] |= {"max_output_tokens": 4096, "temperature": 1.0, "top_p": 0.999}
        status, body = send(f"{agents[row['agent_ref']['name']]}/run", row)
        rolled = json.loads(body)
        assert (status, rolled["uuid"]) == (200, row["uuid"])
        assert rolled["reward"] in (0.0, 1.0)
        assert rolled["response"]["output"][-1]["content"][0]["text"]


@pytest.mark.parametrize("read", [by_json, by_yaml])
def test_an_environment_verifies_as_unsloth_asks_it(head: str, read: Callable[[bytes], Any]) -> None:
    document = read(send(f"{head}/global_config_dict_yaml")[1])
    found = document["mcqa"]["resources_servers"]["mcqa"]
    url = f"http://{found['host']}:{found['port']}"
    assert send(f"{url}/")[0] == 200
    row = json.loads(ROWS.read_text("utf-8").splitlines()[0])
    right, wrong = f"\\boxed{{{row['expected_answer']}}}", "\\boxed{C}"
    assert [verify(url, row, text) for text in (right, wrong, "")] == [1.0, 0.0, 0.0]


def verify(url: str, row: Json, text: str) -> Any:
    """The row's fields, its question again, and a reply in the form of the Responses API."""
    question = row["responses_create_params"]["input"][0]["content"]
    content = {"type": "output_text", "text": text, "annotations": []}
    said = {"id": "msg", "role": "assistant", "type": "message", "status": "completed", "content": [content]}
    response = {"id": "resp", "created_at": 0, "model": "m", "object": "response", "output": [said]}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    asked = {**row, "responses_create_params": {"input": [{"role": "user", "content": question}]}, "response": response}
    status, body = send(f"{url}/verify", asked)
    assert status == 200
    return json.loads(body)["reward"]


def test_every_environment_of_the_document_is_found_by_the_name_of_its_implementation(head: str) -> None:
    """A walk through all its keys meets texts, lists and servers of other kinds, and nothing that stops it."""
    document = by_yaml(send(f"{head}/global_config_dict_yaml")[1])
    servers = {name: one for name, one in document.items() if isinstance(one, dict) and "resources_servers" in one}
    assert sorted(servers) == ["mcqa", "simple_weather"]
    assert all(name in one["resources_servers"] for name, one in servers.items())
    assert "???" not in yaml.safe_dump(document)
