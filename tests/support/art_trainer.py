"""What ART does with a stack: gathers trajectory groups and reads them as its trainers do, as JSON.

python tests/support/art_trainer.py job.json found.json   # a Python that has openpipe-art, torch and transformers
"""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import sys
from pathlib import Path
from typing import Any

from gym.client import AsyncStack
from gym.trainers import GroupStream
from gym.trainers import art as gym_art
from gym.wire.failures import RolloutError

Json = dict[str, Any]


async def gather(job: Json) -> Json:
    """Both ways in which ART is given groups, with a stack that loses each second rollout; and those of a stream."""
    art = importlib.import_module("art")
    async with AsyncStack(job["stack"]) as stack, AsyncStack(job["broken"]) as broken:

        def rollouts() -> list[Any]:
            good = [gym_art.rollout(stack, row) for row in job["rows"]]
            return [*good, *(gym_art.rollout(broken, row) for row in job["rows"])]

        old = await art.gather_trajectory_groups([art.TrajectoryGroup(rollouts())], max_exceptions=len(job["rows"]))
        new = await art.trajectory_group(rollouts(), return_exceptions=True)
        too_many = ""
        try:
            await art.gather_trajectory_groups([art.TrajectoryGroup(rollouts())])
        except RolloutError as error:
            too_many = str(error)
    async with GroupStream(job["stack"], job["rows"], {"size": 2}) as groups:
        streamed = [gym_art.to_group(group) async for group in groups]
    everything = [*old, new, *streamed, art.TrajectoryGroup([await serve(art, job["stack"], job["served"])])]
    parted = tokenize([art.TrajectoryGroup([gym_art.to_trajectory(job["parted"])])])
    return {
        "groups": [describe(group) for group in everything],
        "trained": tokenize(everything),
        "raised": too_many,
        "parted": parted,
    }


async def serve(art: Any, stack: str, served: Json) -> Any:
    """A rollout that asks the endpoint of one of ART's own models."""
    model = art.Model(
        name="m",
        project="p",
        inference_base_url=served["url"],
        inference_api_key=served["key"],
        inference_model_name=served["model"],
    )
    async with AsyncStack(stack) as client:
        return await gym_art.rollout(client, served["row"], agent=served["agent"], model=model)


def describe(group: Any) -> Json:
    """And once through ART's own files: what they hold is what was there."""
    payload = group.compact_dump()
    again = type(group).model_validate(group.model_dump(mode="json"))
    return {
        "rewards": [one.reward for one in group],
        "metrics": [one.metrics for one in group],
        "exceptions": [one.message for one in group.exceptions],
        "messages": [[message["role"] for message in messages(one)] for one in group],
        "same": [one.reward for one in again] == [one.reward for one in group] and bool(payload["data"]),
    }


def messages(trajectory: Any) -> list[Json]:
    found: list[Json] = importlib.import_module("art.trajectories").get_messages(trajectory.messages_and_choices)
    return found


def tokenize(groups: list[Any]) -> list[Json]:
    """The function by which ART's local and Megatron backends make training sequences of groups."""
    module = importlib.import_module("art.preprocessing.tokenize")
    options = {"scale_rewards": True, "shuffle_group_trajectories": False, "drop_zero_advantage_trajectories": False}
    found = module.tokenize_trajectory_groups(Words(), groups, False, **options)
    return [
        {
            "reward": one.trajectory.reward,
            "advantage": one.advantage,
            "token_ids": one.token_ids,
            "mask": one.assistant_mask,
            "log_probs": [None if math.isnan(value) else value for value in one.logprobs],
        }
        for one in found
    ]


class Words:
    """ART asks a tokenizer for nothing where each choice says its ids."""

    name_or_path = "none"


if __name__ == "__main__":
    result = asyncio.run(gather(json.loads(Path(sys.argv[1]).read_text())))
    Path(sys.argv[2]).write_text(json.dumps(result))
