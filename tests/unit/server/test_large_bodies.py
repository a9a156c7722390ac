"""Token ids and log-probs on their way through real servers: as they came, and read where a verifier asks for them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gym.server import Agent, AgentConfig, Model, ResourcesServer, VerifyRequest, tool
from gym.server.testing import Caller, running
from gym.wire import items
from gym.wire.unread import UnreadItem

COUNT = 5_000
IDS = {
    "prompt_token_ids": [*range(COUNT)],
    "generation_token_ids": [*range(COUNT, 0, -1)],
    "generation_log_probs": [-number / 7 for number in range(COUNT)],
}


class Policy(Model):
    """Asks for the tool twice; each of its items has ids. What it is asked comes back in the last text."""

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        asked = items.input_items(params["input"])
        calls = [item for item in asked if item.get("type") == "function_call"]
        if len(calls) < 2:
            return items.response([{**items.function_call("look", "{}", call_id=f"c{len(calls)}"), **IDS}], model="m")
        seen = sum(sum(item["generation_token_ids"]) for item in calls)
        kinds = [item.get("type") or item["role"] for item in asked]
        return items.response([{**items.message(f"{seen} {kinds}"), **IDS}], model="m")


class Blind(ResourcesServer[None]):
    @tool
    async def look(self) -> str:
        return "nothing"

    async def verify(self, rollout: VerifyRequest) -> float:
        assert all(isinstance(item, UnreadItem) for item in rollout.response.output if "generation_token_ids" in item)
        return float(len(rollout.function_calls))


class Reader(Blind):
    async def verify(self, rollout: VerifyRequest) -> float:
        said = [item for item in rollout.response.output if item.get("generation_token_ids")]
        assert all(isinstance(item["generation_log_probs"], list) for item in said)
        return float(sum(item["generation_token_ids"][0] for item in said))


class Plain(Agent):
    config: AgentConfig


@pytest.mark.parametrize(("kind", "reward"), [(Blind, 2.0), (Reader, 3.0 * COUNT)])
async def test_ids_go_through_unread_and_are_there_for_a_verifier(kind: type[Blind], reward: float) -> None:
    refs = {
        "resources_server": {"type": "resources_servers", "name": "blind"},
        "model_server": {"type": "responses_api_models", "name": "policy"},
    }
    async with running(Policy.app({}, name="policy")) as model, running(kind.app({}, name="blind")) as resources:
        known = {"policy": model, "blind": resources}
        async with running(Plain.app(refs, name="plain", document=stack_of(known))) as url, Caller(url) as caller:
            reply = await caller.post("/run", {"responses_create_params": {"input": "go"}})
    output = reply.body["response"]["output"]
    assert reply.body["reward"] == reward
    assert [{name: item[name] for name in IDS} for item in output if item["type"] != "function_call_output"] == [
        IDS
    ] * 3
    assert items.output_text(output) == (
        f"{2 * sum(IDS['generation_token_ids'])} "
        "['message', 'function_call', 'function_call_output', 'function_call', 'function_call_output']"
    )
    assert orjson.dumps(IDS["generation_log_probs"]) in reply.reply.body


def stack_of(urls: dict[str, str]) -> dict[str, Any]:
    kinds = {"policy": "responses_api_models", "blind": "resources_servers"}
    parts = {name: url.removeprefix("http://").partition(":") for name, url in urls.items()}
    return {
        name: {kinds[name]: {name: {"host": host, "port": int(port), "entrypoint": "app.py"}}}
        for name, (host, _, port) in parts.items()
    }
