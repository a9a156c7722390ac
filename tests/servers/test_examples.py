"""What lies beside the example rows: rollouts and metrics that are of these rows and of this verifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gym.server.testing import Caller, running
from gym.wire import items
from tests.support.shipped import RESOURCES, folder_of, rows_of, shipped_app, why_not_here

MADE = [name for name in RESOURCES if (folder_of(name) / "data" / "example_rollouts.jsonl").is_file()]
COLLECTED = {"_ng_task_index", "_ng_rollout_index", "_gym", "response", "reward"}


def rollouts_of(name: str) -> list[dict[str, Any]]:
    text = (folder_of(name) / "data" / "example_rollouts.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def own_fields(name: str) -> dict[str, Any]:
    config = yaml.safe_load((folder_of(name) / "configs" / f"{name}.yaml").read_text("utf-8"))
    fields: dict[str, Any] = config[name]["resources_servers"][name]
    return {key: value for key, value in fields.items() if key != "kind" and "${" not in json.dumps(value)}


@pytest.mark.parametrize("name", RESOURCES)
def test_every_environment_has_example_rollouts_and_metrics(name: str) -> None:
    for file in ("example_rollouts.jsonl", "example_metrics.json"):
        assert (folder_of(name) / "data" / file).is_file(), f"scripts/examples {name}"


@pytest.mark.parametrize("name", MADE)
def test_example_rollouts_are_of_the_example_rows(name: str) -> None:
    rows, rollouts = rows_of(name), rollouts_of(name)
    assert len(rollouts) == len(rows)
    for row, rollout in zip(rows, rollouts, strict=True):
        asked, given = (items.input_items(one["responses_create_params"]["input"]) for one in (row, rollout))
        assert given[: len(asked)] == asked  # an environment may add its first observation
        assert isinstance(rollout["reward"], float)
        assert rollout["response"]["created_at"] == 0


@pytest.mark.parametrize("name", MADE)
def test_example_metrics_are_of_the_example_rollouts(name: str) -> None:
    document = json.loads((folder_of(name) / "data" / "example_metrics.json").read_text("utf-8"))
    rewards = [rollout["reward"] for rollout in rollouts_of(name)]
    assert document[0]["agent_metrics"]["mean/reward"] == pytest.approx(sum(rewards) / len(rewards))


@pytest.mark.parametrize("name", MADE)
async def test_a_verifier_that_needs_nothing_else_still_pays_the_same(name: str) -> None:
    if reason := why_not_here(name):
        pytest.skip(reason)
    fields = own_fields(name)
    with shipped_app(name, **fields) as app:
        async with running(app) as url, Caller(url) as caller:
            if (await caller.get("/reverify_mode")).body != "stateless" or "judge_model_server" in fields:
                pytest.skip("its verifier needs a session or a judge")
            for rollout in rollouts_of(name):
                body = {key: value for key, value in rollout.items() if key not in COLLECTED - {"response"}}
                reply = await caller.post("/verify", body)
                assert (reply.status, reply.body["reward"]) == (200, rollout["reward"])


def test_no_example_names_a_path_of_the_machine_it_was_made_on() -> None:
    for name in MADE:
        for file in ("example_rollouts.jsonl", "example_metrics.json"):
            text = (folder_of(name) / "data" / file).read_text("utf-8")
            assert str(Path.home()) + "/" not in text
            assert "/tmp/gym-examples" not in text
