"""Runs in an environment with SkyRL: its data set, its trainer's own steps around `generate`, and its advantages.

`skyrl_step.py URL RECORDS STEP_WISE` prints what came out as JSON. No worker, no engine, no GPU.
"""

# mypy: disable-error-code="import-not-found, misc"
from __future__ import annotations

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy
import torch
from skyrl.backends.skyrl_train.utils import ppo_utils
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.dataset import PromptDataset
from skyrl.train.dataset.preprocess import convert_prompts_responses_to_batch_tensors
from skyrl.train.generators.base import GeneratorInterface
from skyrl.train.generators.utils import prepare_generator_input
from skyrl.train.trainer import RayPPOTrainer

from gym.collect import AttemptOptions
from gym.trainers.skyrl import GymGenerator


class Generator(GymGenerator, GeneratorInterface):
    """It has every abstract method of SkyRL's interface, or this could not be made."""


class Tokenizer:
    """The length of a prompt is all that the data set asks for."""

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> list[int]:
        return [1] * sum(len(one["content"].split()) for one in messages)


async def step(url: str, records: str, step_wise: bool) -> dict[str, Any]:
    cfg = SkyRLTrainConfig()
    cfg.generator.step_wise_trajectories = step_wise
    data = PromptDataset([records], Tokenizer(), max_prompt_length=1000, num_workers=1)
    prompts = data.collate_fn([data[place] for place in range(len(data))])
    sampling = {"temperature": 1.0, "max_tokens": 64, "top_k": -1, "min_p": 0.0}
    batch, uids = prepare_generator_input(prompts, 2, sampling, "gym", "train", 1)
    generator = Generator(url, step_wise=step_wise, options=AttemptOptions(max_attempts=1))
    trainer = SimpleNamespace(cfg=cfg, generator=generator, all_metrics={})
    output = await RayPPOTrainer.generate(trainer, batch)  # with SkyRL's validate_generator_output
    raw = {name: output[name] for name in ("rewards", "loss_masks", "stop_reasons", "is_last_step")}
    if step_wise:
        uids = [one.instance_id for one in output["trajectory_ids"]]
    output, uids = RayPPOTrainer.postprocess_generator_output(trainer, output, uids)
    names = ("prompt_token_ids", "response_ids", "rewards", "loss_masks", "rollout_logprobs")
    tensors = convert_prompts_responses_to_batch_tensors(0, *(output[name] for name in names))
    advantages = _advantages(tensors, uids, output.get("is_last_step"))
    metrics = {name: value for name, value in trainer.all_metrics.items() if isinstance(value, (int, float))}
    return {**raw, "metrics": metrics, "advantages": advantages, "uids": uids}


def _advantages(tensors: tuple[Any, ...], uids: list[str], last: list[bool] | None) -> list[float]:
    """Of each trajectory, before the mask."""
    _, _, response_mask, rewards, *_ = tensors
    taken = torch.tensor(last if last is not None else [True] * len(uids))
    found, _ = ppo_utils.compute_grpo_outcome_advantage(
        token_level_rewards=rewards[taken].clone(),
        response_mask=torch.ones_like(response_mask[taken], dtype=torch.float),
        index=numpy.array(uids)[taken.numpy()],
        grpo_norm_by_std=False,
    )
    return [round(float(one), 4) for one in found[:, 0]]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(step(sys.argv[1], sys.argv[2], sys.argv[3] == "step_wise"))) + "\n")
