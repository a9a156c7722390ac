"""TRL: `GRPOTrainer(rollout_func=make_rollout_func(url), reward_funcs=env_reward)` trains on the rows of a stack.

A rollout that no attempt got past the infrastructure has no reward (TRL leaves None out of its group's baseline) and
no token that is trained. It is never a reward of 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

from gym.collect import AttemptOptions
from gym.data.line_source import Line, expand_inputs, read_lines
from gym.data.row_parsing import PARAMS, BadLine, parse_row
from gym.errors import ConfigError, InfraError, UserError
from gym.trainers.group_options import GroupOptions
from gym.trainers.groups import RolloutGroup
from gym.trainers.policy_server import PolicyServer
from gym.trainers.sequences import TokenSequence, read_sequence, read_sequences
from gym.trainers.sync import SyncGroupStream
from gym.wire.failures import RolloutError

FIRST_TRL: Final = (1, 6)  # the first one in which a reward of None is not counted as 0
Batch = dict[str, list[Any]]


class ReadRollout(NamedTuple):
    tokens: TokenSequence
    reward: float | None
    result: dict[str, Any] | None


def read_prompts(path: str | Path) -> list[dict[str, str]]:
    """For `Dataset.from_list`: the rows of JSONL files, each as the text of a prompt. TRL gives nothing else back."""
    try:
        return [{"prompt": _checked_text(line)} for line in read_lines(expand_inputs([str(path)]))]
    except BadLine as bad:
        raise ConfigError([bad.problem]) from None


def _checked_text(line: Line) -> str:
    """As it stands in the file: so its integers keep their digits, however large they are."""
    parse_row(line)
    return line.raw.decode()


def make_rollout_func(
    url: str,
    *,
    agent: str = "",
    token: str = "",
    policy_server: PolicyServer | None = None,
    options: AttemptOptions | None = None,
) -> Callable[[list[str], Any], Batch]:
    """`agent` is for rows that name none. With `policy_server` the trainer's model answers: for a TRL without vLLM."""
    one_each = GroupOptions(size=1, **asdict(options or AttemptOptions()))

    def roll_out(prompts: list[str], trainer: Any) -> Batch:
        _check_policy(trainer.args, policy_server)
        tokenizer = trainer.processing_class
        with _serving(trainer, policy_server) as endpoint:
            rows = [{**_sample_as_trained(json.loads(prompt), trainer.args), **endpoint} for prompt in prompts]
            with SyncGroupStream(url, rows, one_each, agent=agent, token=token) as groups:
                ended = sorted(groups, key=lambda group: group.row)
        return _to_batch(ended, filler=TokenSequence([tokenizer.eos_token_id], [tokenizer.eos_token_id], [0.0], [0]))

    return roll_out


def env_reward(
    *, env_reward: list[float | None], log_metric: Callable[[str, float], None] | None = None, **_: Any
) -> list[float | None]:
    """The environment's own reward, and how many rollouts had none: `env_failed` beside TRL's metrics."""
    if log_metric is not None:
        log_metric("env_failed", sum(one is None for one in env_reward) / len(env_reward))
    return env_reward


def check_none_is_left_out(lost: int, total: int) -> None:
    """An old TRL would take a failure for a bad answer."""
    if lost and _counts_none_as_zero():
        raise InfraError(f"{lost} of {total} rollouts failed, and this TRL counts them as 0", "use trl>=1.6")


def _check_policy(args: Any, policy_server: PolicyServer | None) -> None:
    """What answers has to be what is trained."""
    if args.use_vllm and policy_server is not None:
        raise UserError(
            "TRL uses vLLM, and policy_server serves its model too", "leave out policy_server=, or use_vllm"
        )
    if policy_server is None and not (args.use_vllm and args.vllm_mode == "server"):
        hint = (
            "use_vllm=True with vllm_mode='server', and that server's URL for `gym up`; or policy_server=PolicyServer()"
        )
        raise UserError("nothing says that the stack asks the policy which TRL trains", hint)


def _serving(trainer: Any, policy_server: PolicyServer | None) -> AbstractContextManager[dict[str, str]]:
    if policy_server is None:
        return nullcontext({})
    return policy_server.serving(trainer.accelerator.unwrap_model(trainer.model), trainer.processing_class)


def _sample_as_trained(row: dict[str, Any], args: Any) -> dict[str, Any]:
    dials = {"temperature": args.temperature, "top_p": args.top_p}
    return {**row, PARAMS: {"max_output_tokens": args.max_completion_length, **row[PARAMS], **dials}}


def _to_batch(groups: list[RolloutGroup], filler: TokenSequence) -> Batch:
    found = [_read(group, filler) for group in groups]
    lost = sum(one.reward is None for one in found)
    if lost == len(found):
        failures = [one.failure for group in groups for one in group.failures]
        raise InfraError(
            f"not one of {lost} rollouts came back: {failures[0] if failures else '?'}", "gym ps, gym logs"
        )
    check_none_is_left_out(lost, len(found))
    return {
        "prompt_ids": [one.tokens.prompt_ids for one in found],
        "completion_ids": [one.tokens.completion_ids for one in found],
        "logprobs": [one.tokens.log_probs for one in found],
        "env_mask": [one.tokens.mask for one in found],
        "env_reward": [one.reward for one in found],
        "env_result": [one.result for one in found],
    }


def _read(group: RolloutGroup, filler: TokenSequence) -> ReadRollout:
    """Of a rollout whose calls do not continue each other, the sequence in which the policy has most tokens."""
    rollout = group.rollouts[0] if group.rollouts else None
    if rollout is None or rollout.result is None:
        return ReadRollout(filler, None, None)
    try:
        found = read_sequences(rollout.result)
    except RolloutError:  # ids that do not line up: as bad as none
        return ReadRollout(filler, None, None)
    if not found and rollout.result["response"].get("incomplete_details"):
        return ReadRollout(filler, rollout.reward, rollout.result)  # the prompt left no room: nothing was said
    tokens = max(found, key=lambda one: sum(one.mask)) if found else read_sequence(rollout.result)
    return ReadRollout(tokens, rollout.reward, rollout.result)


def _counts_none_as_zero() -> bool:
    try:
        numbers = version("trl").split(".")[:2]
    except PackageNotFoundError:
        return False
    return tuple(map(int, numbers)) < FIRST_TRL
