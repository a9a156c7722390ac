"""The agent that a file need not write, and the files that mean none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.config import LoadRequest, load_stack
from gym.config.model import StackConfig

SERVER = """quiz:
  resources_servers:
    quiz:
      image: example/quiz
      datasets:
        - name: example
          type: example
          jsonl_fpath: rows.jsonl
"""
WRITTEN = """quiz:
  resources_servers:
    quiz:
      image: example/quiz
quiz_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: quiz
      model_server:
        type: responses_api_models
        name: policy_model
      datasets:
        - name: example
          type: example
          jsonl_fpath: rows.jsonl
"""


def load(tmp_path: Path, *texts: str, overrides: tuple[str, ...] = ()) -> StackConfig:
    folder = tmp_path / "servers"
    for kind, name in (("agents", "simple_agent"), ("agents", "other"), ("models", "scripted")):
        (folder / kind / name / "configs").mkdir(parents=True, exist_ok=True)
        (folder / kind / name / "app.py").write_text("")
    model = "scripted:\n  responses_api_models:\n    scripted:\n      entrypoint: app.py\n"
    (folder / "models" / "scripted" / "configs" / "scripted.yaml").write_text(model)
    files = []
    for number, text in enumerate(texts):
        files.append(tmp_path / f"{number}.yaml")
        files[-1].write_text(text)
    return load_stack(LoadRequest(files=tuple(files), overrides=overrides, cwd=tmp_path, roots=(tmp_path,)))


def values(stack: StackConfig) -> list[object]:
    return [one.model_dump(exclude={"origin"}) for one in stack.instances]


def test_data_sets_of_a_server_without_an_agent_mean_the_simple_agent_as_if_it_were_written(tmp_path: Path) -> None:
    meant, written = load(tmp_path, SERVER), load(tmp_path, WRITTEN)
    assert values(meant) == values(written)
    agent = meant.instance("quiz_simple_agent")
    assert agent is not None
    assert agent.fields["datasets"][0]["jsonl_fpath"] == "rows.jsonl"
    assert str(agent.origin).endswith("0.yaml:5")


def test_what_a_file_says_of_that_agent_is_said_over_it_and_so_are_overrides(tmp_path: Path) -> None:
    own = "quiz_simple_agent:\n  responses_api_agents:\n    simple_agent:\n      max_steps: 3\n"
    path = "quiz_simple_agent.responses_api_agents.simple_agent"
    for stack in (load(tmp_path, SERVER + own), load(tmp_path, SERVER, own)):
        agent = stack.instance("quiz_simple_agent")
        assert agent is not None
        assert (agent.fields["max_steps"], agent.fields["resources_server"]["name"]) == (3, "quiz")
    agent = load(tmp_path, SERVER + own, overrides=(f"{path}.max_steps=5",)).instance("quiz_simple_agent")
    assert agent is not None
    assert agent.fields["max_steps"] == 5


def test_an_agent_that_is_named_after_the_server_takes_the_place_of_the_simple_one(tmp_path: Path) -> None:
    stack = load(tmp_path, SERVER + "quiz_other:\n  responses_api_agents:\n    other:\n      max_steps: 3\n")
    (agent,) = (one for one in stack.instances if one.type == "responses_api_agents")
    assert (agent.name, agent.fields["max_steps"], agent.fields["resources_server"]["name"]) == (
        "quiz_other",
        3,
        "quiz",
    )
    assert agent.fields["datasets"][0]["jsonl_fpath"] == "rows.jsonl"


def test_a_file_that_names_an_agent_keeps_its_own(tmp_path: Path) -> None:
    own = WRITTEN.partition("quiz_simple_agent")[2].partition("      datasets")[0]
    stack = load(tmp_path, SERVER + "mine" + own.replace("simple_agent", "other"))
    assert [one.name for one in stack.instances if one.type == "responses_api_agents"] == ["mine"]
    server = stack.instance("quiz")
    assert server is not None
    assert server.fields["datasets"]


@pytest.mark.parametrize("datasets", ["", "      datasets: []\n", "      datasets: none\n"])
def test_a_server_that_lists_no_data_sets_stays_alone(tmp_path: Path, datasets: str) -> None:
    text = SERVER.partition("      datasets")[0] + datasets
    if "none" in datasets:
        text = text.replace("none", "null")
    assert [one.name for one in load(tmp_path, text).instances] == ["quiz"]
