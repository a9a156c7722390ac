"""The way from a hub to a trainer's first batch, each line typed as a person types it; the hub and the model are ours.

The hub holds the data set of `workplace_assistant` under the name of the public one, with rows for the tables that
come along, and the public one's own kind: rows for other tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from gym.trainers.trl import make_rollout_func, read_prompts
from tests.support.cli import gym
from tests.support.fake_vllm import FakeVLLM, fake_vllm
from tests.support.hub import TOKEN, Hub, hub_server
from tests.support.shell import Shell

REPO = "nvidia/Nemotron-RL-agent-workplace_assistant"
# As a configuration written for the peer has it: both registries, a licence, the peer's paths.
WORKPLACE = f"""
workplace_assistant:
  resources_servers:
    workplace_assistant:
      entrypoint: app.py
      domain: agent
workplace_assistant_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: workplace_assistant
      model_server:
        type: responses_api_models
        name: policy_model
      datasets:
      - name: train
        type: train
        license: Apache 2.0
        jsonl_fpath: resources_servers/workplace_assistant/data/train.jsonl
        num_repeats: 1
        gitlab_identifier:
          dataset_name: workplace_assistant
          version: 0.0.2
          artifact_fpath: train.jsonl
        huggingface_identifier:
          repo_id: {REPO}
          artifact_fpath: train.jsonl
      - name: validation
        type: validation
        license: Apache 2.0
        jsonl_fpath: resources_servers/workplace_assistant/data/validation.jsonl
        num_repeats: 1
        huggingface_identifier:
          repo_id: {REPO}
      - name: example
        type: example
        jsonl_fpath: resources_servers/workplace_assistant/data/example.jsonl
"""
SUMS = """
math_advanced_calculations:
  resources_servers:
    math_advanced_calculations: {entrypoint: app.py, domain: math}
math_advanced_calculations_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: math_advanced_calculations}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
      - {name: sums, type: train, license: MIT, jsonl_fpath: sums.jsonl, num_repeats: 2, start_idx: 2, end_idx: 12}
"""
PREPARE = "ng_prepare_data '+config_paths=[workplace.yaml]' +output_dirpath=data/workplace +mode=train_preparation"
FETCHED = Path("data/workplace_assistant")  # ours are not a folder of the user's


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with hub_server(tmp_path / "hub") as hub:
        yield hub


@pytest.fixture
def model() -> Iterator[FakeVLLM]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(fake_vllm()) as fake:
        yield fake


@pytest.fixture
def shell(tmp_path: Path, hub: Hub) -> Iterator[Shell]:
    folder = tmp_path / "here"
    folder.mkdir()
    shell = Shell(folder)
    shell.env |= hub.environ
    (folder / "env.yaml").write_text(f"hf_token: {TOKEN}\n")
    (folder / "workplace.yaml").write_text(WORKPLACE)
    (folder / "sums.yaml").write_text(SUMS)
    yield shell
    gym("down", cwd=folder)


def test_from_the_hub_to_the_first_batch(shell: Shell, hub: Hub, model: FakeVLLM) -> None:
    for split, count in (("train", 12), ("validation", 4)):
        shell.type(f"gym data grow workplace_assistant --rows {count} --seed 7 --split {split} -o made/{split}.jsonl")
    made = {path.name: path.read_bytes() for path in (shell.cwd / "made").iterdir()}
    hub.add(REPO, {name: made[name] for name in ("train.jsonl", "validation.jsonl")})
    shell.type("gym data grow math_advanced_calculations --rows 20 --seed 1 --split train -o sums.jsonl")

    assert "train.jsonl" in shell.type(f"gym data ls hf:{REPO}")
    assert "+should_download=true" in shell.type(PREPARE, code=1)
    assert not (shell.cwd / "data").exists()
    shell.type(f"{PREPARE} +should_download=true +data_source=huggingface")
    assert (shell.cwd / FETCHED / "train.jsonl").read_bytes() == made["train.jsonl"]
    metrics = json.loads((shell.cwd / "data/workplace/train_metrics.json").read_text())
    assert (metrics["Number of examples"], metrics["license"]) == (12, "Apache 2.0")
    assert metrics["huggingface_identifier"]["repo_id"] == REPO

    blend = "--blend workplace_assistant_simple_agent=2,sums=1 --seed 3"
    shell.type(f"gym data prepare -c workplace.yaml -c sums.yaml -o mixed --mode train_preparation {blend}")
    rows = [json.loads(line) for line in (shell.cwd / "mixed/train.jsonl").read_bytes().splitlines()]
    agents = [row["agent_ref"]["name"].removesuffix("_simple_agent") for row in rows]
    assert {name: agents.count(name) for name in agents} == {"workplace_assistant": 12, "math_advanced_calculations": 6}
    assert agents != sorted(agents, reverse=True)

    given = f"policy_base_url={model.url} policy_api_key=none policy_model_name=tiny"
    up = "gym up -c workplace.yaml -c sums.yaml --model vllm_model_for_training --runtime local --port 0"
    shell.type(f"{up} {given}")
    url = json.loads(shell.type("gym ps --json"))["router"]
    first = first_batch(url, shell.cwd / "mixed/train.jsonl", model)
    assert [len(first[name]) for name in ("prompt_ids", "completion_ids", "logprobs", "env_reward")] == [4] * 4
    assert all(first["completion_ids"])
    assert set(first["env_reward"]) <= {0.0, 1.0}

    output = shell.type("gym rollouts -c workplace.yaml --split validation -o validation.jsonl --limit 2")
    assert "Apache 2.0" in output
    assert len((shell.cwd / "validation.jsonl").read_bytes().splitlines()) == 2


def first_batch(url: str, rows: Path, model: FakeVLLM) -> dict[str, list[Any]]:
    """What TRL asks of its rollout function for the first step; the stack's own model stands for its vLLM."""
    args = SimpleNamespace(use_vllm=True, vllm_mode="server", temperature=1.0, top_p=1.0, max_completion_length=64)
    trainer = SimpleNamespace(args=args, processing_class=SimpleNamespace(eos_token_id=2))
    batch = make_rollout_func(url)([one["prompt"] for one in read_prompts(rows)[:4]], trainer)
    assert {body["max_tokens"] for body in model.bodies()} == {64}
    return batch


def test_rows_for_other_tables_are_reported_with_what_they_need(shell: Shell) -> None:
    shell.type("gym data grow workplace_assistant --rows 3 --seed 7 --split train -o made.jsonl")
    lines = [json.loads(line) for line in (shell.cwd / "made.jsonl").read_bytes().splitlines()]
    lines[1]["ground_truth"] = [
        {"name": "email_delete_email", "arguments": json.dumps({"email_id": "99999999"})},
    ]
    (shell.cwd / "rows.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    output = shell.type("gym data validate rows.jsonl", code=1)
    assert "rows.jsonl:2: ground_truth" in output
    assert "99999999" in output
    assert "tables" in output
