"""OpenRLHF's own code around a tiny model on the CPU, run by a Python that has `openrlhf`, torch and transformers.

    python tests/support/openrlhf_program.py < order.json > report.json

Ray, vLLM and a GPU are not there: modules that only lend names stand in for the first two, a random model of
`transformers` for the engine. Loading an agent, asking it, asking for rewards and making experiences is OpenRLHF's.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

STAND_INS = {
    "ray": ("remote",),
    "ray.util": (),
    "ray.util.placement_group": ("placement_group",),
    "ray.util.scheduling_strategies": ("PlacementGroupSchedulingStrategy", "NodeAffinitySchedulingStrategy"),
    "vllm": ("SamplingParams",),
    "vllm.inputs": ("TokensPrompt",),
    "vllm.utils": ("random_uuid",),
}
Json = dict[str, Any]


def same(value: Any) -> Any:
    """`ray.remote` leaves a class as it is; of the others only the name is wanted."""
    return value


def stand_in() -> None:
    for name, members in STAND_INS.items():
        module = sys.modules[name] = ModuleType(name)
        for member in members:
            setattr(module, member, same)


class Engine:
    """What a rollout worker is to an agent: `generate`, of ids."""

    def __init__(self, policy: Any, words: list[str]) -> None:
        self.policy, self.words = policy, words

    async def generate(self, prompt: list[int], params: Any, multi_modal_data: Any = None) -> Any:
        made, log_probs = self._draw(prompt, params.max_tokens)
        pairs = zip(made, log_probs, strict=True)
        chances = [{one: SimpleNamespace(logprob=chance)} for one, chance in pairs]
        reason = "stop" if made[-1] == self.policy.end else "length"
        text = self.policy.tokenizer.decode(made)
        one = SimpleNamespace(token_ids=made, text=text, logprobs=chances, finish_reason=reason)
        return SimpleNamespace(outputs=[one])

    def _draw(self, prompt: list[int], limit: int) -> tuple[list[int], list[float]]:
        """`words` are said in turns; without any the model draws."""
        if not self.words:
            drawn: tuple[list[int], list[float]] = self.policy.generate(prompt, limit)
            return drawn
        self.words = [*self.words[1:], self.words[0]]
        ids = [*self.policy.tokenizer(self.words[-1])["input_ids"], self.policy.end][:limit]
        return ids, [-0.5] * len(ids)


async def sample(order: Json, policy: Any) -> list[Json]:
    """As a rollout worker of OpenRLHF does it."""
    worker = importlib.import_module("openrlhf.trainer.ray.vllm_engine")
    actor = worker.RolloutRayActor.__new__(worker.RolloutRayActor)
    if "agent" in order:
        actor.executor = worker._load_agent_executor(order["agent"])
    else:
        actor.executor = worker.SingleTurnAgentExecutor(order["remote_url"])
    actor.generate = Engine(policy, order.get("words", [])).generate
    found: list[Json] = []
    for prompt, label in order["prompts"]:
        params = SimpleNamespace(max_tokens=None, logprobs=1, temperature=1.0)
        found += await worker.RolloutRayActor.generate_responses(
            actor, prompt, label, params, order["max_length"], policy.tokenizer, order["samples"]
        )
    return found


def experience(response: Json, max_length: int) -> Json:
    """As its trainer sees it."""
    generator = importlib.import_module("openrlhf.trainer.ppo_utils.samples_generator").SamplesGenerator
    made = generator._process_response_into_experience(generator.__new__(generator), response, max_len=max_length)
    names = ("sequences", "action_mask", "rollout_log_probs", "rewards", "scores", "truncated")
    values = {name: getattr(made, name) for name in names}
    return {name: None if value is None else value.tolist() for name, value in values.items()}


def main() -> None:
    stand_in()
    sys.path.insert(0, str(Path(__file__).parent))
    tiny = importlib.import_module("tiny_vllm")
    order, policy, report = json.load(sys.stdin), tiny.Policy(), sys.stdout
    sys.stdout = sys.stderr  # OpenRLHF logs there
    responses = asyncio.run(sample(order, policy))
    experiences = [experience(one, order["max_length"]) for one in responses]
    for one, response in zip(experiences, responses, strict=True):
        ids = response["observation_tokens"]
        ranges = response["action_ranges"]
        one["spoken"] = [policy.tokenizer.decode(ids[start:end]) for start, end in ranges]
        if "words" not in order:
            one["own_log_probs"] = [tiny.score(policy, ids[:start], ids[start:end]) for start, end in ranges]
    json.dump(experiences, report)


if __name__ == "__main__":
    main()
