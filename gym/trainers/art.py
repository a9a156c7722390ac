"""OpenPipe ART: rollouts as `art.Trajectory`, with the token ids and log-probs that the policy itself gave.

What only the infrastructure failed is raised, so that ART counts an exception; it is never a trajectory with reward 0.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from gym.client import AsyncStack
from gym.errors import UserError
from gym.trainers.groups import ENDED_VERSION, VERSION, RolloutGroup
from gym.trainers.run import check_reward, run_row
from gym.wire.chat import input_to_messages, responses_to_chat
from gym.wire.policy_endpoint import KEY, MODEL, URL
from gym.wire.token_ids import GENERATION, Tokens, read_fields

Json = dict[str, Any]


async def rollout(stack: AsyncStack, row: Mapping[str, Any], *, agent: str = "", model: Any = None) -> Any:
    """An `art.Trajectory` of one `/run`. `model`: an `art.Model`, whose own endpoint then answers for the policy."""
    endpoint = read_endpoint(model) if model is not None else {}
    return to_trajectory(await run_row(stack, {**row, **endpoint}, agent=agent))


def to_group(group: RolloutGroup) -> Any:
    """An `art.TrajectoryGroup` of a group from a `GroupStream`; what failed is among its exceptions."""
    failures = [one.failure for one in group.failures if one.failure is not None]
    trajectories = [to_trajectory(orjson.loads(one.line)) for one in group.rollouts]
    metadata = {"source": group.source, "row": group.row, "epoch": group.epoch}
    return importlib.import_module("art").TrajectoryGroup(trajectories, exceptions=failures, metadata=metadata)


def to_trajectory(rollout: Json) -> Any:
    """An `art.Trajectory` of a verified rollout: a `/run` reply, or a line of `gym rollouts`."""
    stamp = rollout.get("_gym") or {}
    params, response = rollout["responses_create_params"], rollout["response"]
    calls = [read_fields(item) for item in response["output"] if item.get(GENERATION)]
    if not calls:
        hint = "serve the policy by vllm_model with return_token_id_information: true"
        raise UserError("the rollout holds no token ids, so ART would not train on it", hint)
    prompt = input_to_messages(params.get("input"), params.get("instructions"))
    return importlib.import_module("art").Trajectory(
        messages_and_choices=[*prompt, *_read_turns(response, iter(calls))],
        tools=responses_to_chat({"tools": params.get("tools")}).get("tools"),
        reward=check_reward(rollout, str(stamp.get("agent") or "")),
        metrics=(rollout.get("reward_components") or {})
        | {"completion_tokens": sum(len(call.generation) for call in calls)},
        metadata={name: rollout[name] for name in ("agent_ref", "reason") if name in rollout},
        initial_policy_version=stamp.get(VERSION),
        final_policy_version=stamp.get(ENDED_VERSION, stamp.get(VERSION)),
    )


def read_endpoint(model: Any) -> Json:
    """Where ART serves a model, as the fields of a `/run` body."""
    if not model.inference_base_url:
        raise UserError(f"{model.name} has no inference endpoint", "await model.register(backend) first")
    named = {URL: model.inference_base_url, KEY: model.inference_api_key, MODEL: model.get_inference_name()}
    return {name: value for name, value in named.items() if value}


def _read_turns(response: Mapping[str, Any], calls: Iterator[Tokens]) -> Iterator[Any]:
    """A `Choice` for each model call, and between them what tools and users said, as chat messages."""
    cut = (response.get("incomplete_details") or {}).get("reason") == "max_output_tokens"
    since: list[Json] = []  # the last call
    for item in response["output"]:
        since.append(item)
        if item.get(GENERATION):
            *between, message = input_to_messages(since)
            yield from between
            finish = "tool_calls" if message.get("tool_calls") else "stop"
            yield _make_choice(message, next(calls), "length" if cut and item is response["output"][-1] else finish)
            since = []
    yield from input_to_messages(since)


def _make_choice(message: Json, call: Tokens, finish: str) -> Any:
    """As a vLLM that was asked for `return_token_ids` says it: ART reads the ids from the choice."""
    content: list[Json] = [
        {"token": f"token_id:{token}", "bytes": None, "logprob": log_prob, "top_logprobs": []}
        for token, log_prob in zip(call.generation, call.log_probs, strict=True)
    ]
    completion = importlib.import_module("openai.types.chat.chat_completion")
    return completion.Choice.model_validate(
        {
            "index": 0,
            "finish_reason": finish,
            "message": message,
            "logprobs": {"content": content, "refusal": None},
            "prompt_token_ids": call.prompt,
            "token_ids": call.generation,
        }
    )
