"""The commands that follow a collection, on a real stack: profiled, compared, re-run, exported, merged."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym.testing import GymStack
from tests.support.cli import Terminal, gym

SHOP = """
from pathlib import Path

from gym.server import ResourcesServer, VerifyRequest, tool

PRICES = Path({prices!r})


class Shop(ResourcesServer[None]):
    reverify_mode = "stateless"

    @tool
    async def look_up(self, item: str) -> dict[str, int]:
        \"\"\"The price of an item.\"\"\"
        return {{"price": int(PRICES.read_text())}}

    async def verify(self, rollout: VerifyRequest) -> float:
        return float(int(PRICES.read_text()) < 10)


app = Shop.app()
"""
CONFIG = """
shop:
  resources_servers:
    shop:
      entrypoint: app.py
shop_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: shop}
      model_server: {type: responses_api_models, name: policy_model}
"""
TOOL = {
    "type": "function",
    "name": "look_up",
    "parameters": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
    "strict": True,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A stack of a stateful server with two replicas, a verifier of answers, and a shop whose price can change."""
    folder = tmp_path_factory.mktemp("study")
    shop = folder / "shop"
    (shop / "configs").mkdir(parents=True)
    (folder / "price.txt").write_text("5")
    (shop / "app.py").write_text(SHOP.format(prices=str(folder / "price.txt")))
    (shop / "configs" / "shop.yaml").write_text(CONFIG)
    asked = {"input": "What does the apple cost?", "tools": [TOOL]}
    rows = [
        {"responses_create_params": asked, "agent_ref": {"name": "shop_agent"}, "id": number} for number in range(3)
    ]
    (folder / "shop.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = ("stateful_counter", "mcqa", "shop")
    with GymStack(*names, runtime="local", folder=folder).with_replicas("stateful_counter", 2):
        yield folder


def collected(folder: Path, source: str, name: str, *words: str) -> str:
    done = gym("rollouts", source, "-o", name, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return name


def parsed(done: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_collection_is_profiled_and_what_lies_between_collected_once_more(folder: Path) -> None:
    name = collected(folder, "mcqa", "p.jsonl", "--repeats", "2")
    profile = parsed(gym("profile", name, "--keep-between", "0", "0.5", "-o", "hard.jsonl", "--json", cwd=folder))
    counts = profile["counts"]["mcqa_simple_agent"]
    assert profile["kept"] == counts["too hard"] > 0
    assert sum(counts.values()) == 5
    profiled = {line["_ng_task_index"]: line for line in lines(folder / "p_reward_profiling.jsonl")}
    assert len(profiled) == 5
    (entry,) = json.loads((folder / "p_aggregate_metrics.json").read_text())
    (agent,) = json.loads((folder / "p_agent_metrics.json").read_text())
    rate = agent["pass@1[avg-of-2]/accuracy"]
    assert rate == pytest.approx(100 * agent["mean/reward"])
    assert entry["agent_metrics"]["pass@1[avg-of-2]/accuracy"] == pytest.approx(rate)
    assert entry["agent_metrics"]["pass@2/accuracy/ci_low"] <= entry["agent_metrics"]["pass@2/accuracy"]
    collected(folder, "hard.jsonl", "again.jsonl")
    compared = parsed(gym("compare", name, "again", "--json", cwd=folder))
    assert (compared["tasks"], compared["only_before"]) == (counts["too hard"], 5 - counts["too hard"])
    assert (compared["difference"], compared["flips"]) == (0.0, [])
    shown = gym("profile", name, cwd=folder).stdout
    assert "TOO HARD" in shown
    assert "p_materialized_inputs.jsonl:" in shown


def test_sessions_on_two_replicas_are_replayed_without_a_model(folder: Path) -> None:
    name = collected(folder, "stateful_counter", "c.jsonl", "--repeats", "4")
    result = parsed(gym("replay", name, "--json", cwd=folder))
    assert (result["checked"], result["differing"]) == (20, 0)
    assert result["calls"] > 20
    with Terminal("replay", name, cwd=folder) as terminal:
        assert terminal.wait() == 0
        assert terminal.is_sane()
        assert "differ    0" in terminal.text
    refused = gym("reverify", name, cwd=folder)
    assert refused.returncode == 1
    assert "/reverify_mode: unsupported" in refused.stderr
    forced = gym("reverify", name, "--force", "-o", "again_c.jsonl", cwd=folder)
    assert forced.returncode == 1
    assert (folder / "unsafe_again_c.jsonl").is_file()
    assert "c.jsonl:1 " in forced.stdout


def test_a_tool_and_a_verifier_that_changed_are_found_out(folder: Path) -> None:
    name = collected(folder, "shop.jsonl", "s.jsonl")
    assert parsed(gym("replay", name, "--json", cwd=folder))["differing"] == 0
    assert parsed(gym("reverify", name, "--json", cwd=folder))["differing"] == 0
    (folder / "price.txt").write_text("50")
    try:
        replayed = gym("replay", name, cwd=folder)
        assert replayed.returncode == 1
        assert "call 1: look_up" in replayed.stdout
        verified = parsed(gym("reverify", name, "-o", "s_now.jsonl", "--json", cwd=folder), 1)
    finally:
        (folder / "price.txt").write_text("5")
    assert [one["where"] for one in verified["differences"]] == ["s.jsonl:1", "s.jsonl:2", "s.jsonl:3"]
    assert {(one["recorded"], one["now"]) for one in verified["differences"]} == {("1", "0")}
    compared = gym("compare", name, "s_now.jsonl", cwd=folder)
    assert compared.stdout.startswith("No clear difference: B is worse by 1.0000, which may be chance.\n")
    assert "0 better, 3 worse" in compared.stdout
    assert "s_now.jsonl:1" in compared.stdout
    pairs = gym("profile", "s_now.jsonl", "--inputs", "s_materialized_inputs.jsonl", cwd=folder)
    assert pairs.returncode == 0, pairs.stderr


def test_rollouts_become_training_data(folder: Path) -> None:
    name = collected(folder, "stateful_counter", "e.jsonl", "--limit", "2")
    done = gym("export", name, "--to", "sft", "-o", "sft.jsonl", cwd=folder)
    assert "2 conversations from 2 rollouts" in done.stdout
    examples = lines(folder / "sft.jsonl")
    assert {message["role"] for message in examples[0]["messages"]} == {"system", "user", "assistant", "tool"}
    assert json.loads(examples[0]["tools"])
    same = gym("export", name, "--to", "dpo", "-o", "dpo.jsonl", cwd=folder)
    assert same.returncode == 1
    assert "--repeats" in same.stderr
    refused = gym("export", name, "--to", "sft", "-o", "sft.jsonl", cwd=folder)
    assert refused.returncode == 1
    assert "exists already" in refused.stderr


def test_shards_are_merged_into_what_one_run_would_have_been(folder: Path) -> None:
    for part in (1, 2):
        collected(folder, "mcqa", f"m{part}.jsonl", "--repeats", "2", "--shard", f"{part}/2")
    lacking = gym("merge", "m.jsonl", "m1.jsonl", cwd=folder)
    assert lacking.returncode == 1
    assert "2/2" in lacking.stderr
    merged = gym("rollouts", "merge", "m.jsonl", "m1.jsonl", "m2.jsonl", cwd=folder)
    assert merged.returncode == 0, merged.stderr
    resumed = parsed(gym("rollouts", "mcqa", "-o", "m.jsonl", "--repeats", "2", "--json", cwd=folder))
    assert (resumed["progress"]["done"], resumed["progress"]["resumed"]) == (10, 10)
    collected(folder, "mcqa", "whole.jsonl", "--repeats", "2")
    compared = parsed(gym("compare", "m", "whole", "--json", cwd=folder))
    assert (compared["tasks"], compared["only_before"], compared["only_after"]) == (5, 0, 0)
    assert compared["flips"] == []


def test_commands_that_need_a_stack_say_so_where_none_runs(folder: Path, tmp_path: Path) -> None:
    name = folder / collected(folder, "mcqa", "n.jsonl")
    for command in ("reverify", "replay"):
        done = gym(command, str(name), cwd=tmp_path)
        assert done.returncode == 1
        assert "No stack 'gym'" in done.stderr
        unreachable = gym(command, str(name), "--url", "http://127.0.0.1:9", cwd=tmp_path)
        assert unreachable.returncode == 1
        assert "no stack answers" in unreachable.stderr
