"""A generator of SkyRL: each trajectory is one `/run` of a stack, and its token ids are what SkyRL trains on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final

from gym.collect import AttemptOptions, Rollout, collect
from gym.errors import UserError
from gym.trainers.carried_rows import PARAMS, pack_row, put_endpoint, unpack_row
from gym.trainers.sequences import TokenSequence, read_sequences
from gym.wire import items
from gym.wire.failures import RolloutError

SAMPLING: Final = {"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_output_tokens"}
# How the engine answers, not what it samples.
FORM: Final = {"logprobs", "min_tokens", "skip_special_tokens", "include_stop_str_in_output"}
# No Responses request carries these. With these values they change nothing, so that they may be left out.
NEUTRAL: Final = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
NOTHING: Final = TokenSequence([0], [0], [0.0], [0])  # masked: in the place of a trajectory without tokens
UNUSED: Final = (
    "trajectory_time_splits",
    "rollout_expert_indices",
    "rollout_sample_support",
    "env_metrics",
    "pixel_values",
    "image_grid_thw",
)


def row_to_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """One line of a data set for SkyRL: the whole row, and its prompt, of which SkyRL checks the length."""
    return {"prompt": _to_messages((row.get(PARAMS) or {}).get("input")), **pack_row(row)}


class GymGenerator:
    """Fits SkyRL's `GeneratorInterface`: return it from `get_generator` of the experiment."""

    def __init__(
        self,
        url: str,
        *,
        endpoint: str | Callable[[], str] = "",
        model: str = "",
        step_wise: bool = False,
        agent: str = "",
        token: str = "",
        options: AttemptOptions | None = None,
    ) -> None:
        """`endpoint`: of the inference engine, with its /v1; "" where the stack's model has it. `step_wise` is
        `generator.step_wise_trajectories` of SkyRL's config."""
        self._url, self._endpoint, self._model, self._step_wise = url, endpoint, model, step_wise
        self._agent, self._token, self._options = agent, token, options

    async def generate(self, input_batch: Mapping[str, Any]) -> dict[str, Any]:
        """A `GeneratorOutput` in the order of the batch."""
        rows = self._make_rows(input_batch)
        found: list[Rollout | RolloutError] = [_not_kept()] * len(rows)
        rollouts = collect(self._url, rows, agent=self._agent, token=self._token, options=self._options)
        async with aclosing(rollouts):
            async for rollout in rollouts:
                found[rollout.row] = rollout.failure or rollout
        places = [_read_place(one) for one in found]
        ids = input_batch.get("trajectory_ids") or [None] * len(rows)
        _fill_rewards(places, [getattr(one, "instance_id", None) for one in ids])
        return _to_output(places, ids, step_wise=self._step_wise)

    def _make_rows(self, batch: Mapping[str, Any]) -> list[dict[str, Any]]:
        endpoint = self._endpoint() if callable(self._endpoint) else self._endpoint
        params = _to_params(batch.get("sampling_params") or {})
        extras = batch.get("env_extras") or [{}] * len(batch["prompts"])
        rows = [put_endpoint(unpack_row(one), endpoint, model=self._model) for one in extras]
        return [{**row, PARAMS: {**row[PARAMS], **params}} for row in rows]


@dataclass(slots=True)
class _Place:
    """What became of one trajectory of the batch."""

    sequences: list[TokenSequence] = field(default_factory=list)
    reward: float | None = None
    seconds: float = 0.0
    stop: str = "stop"
    failure: RolloutError | None = None


def _read_place(found: Rollout | RolloutError) -> _Place:
    if isinstance(found, RolloutError):
        return _Place(stop="error", failure=found)
    result = found.result or {}
    try:
        sequences = read_sequences(result)
    except RolloutError as failure:
        return _Place(stop="error", failure=failure)
    cut = (result.get("response") or {}).get("incomplete_details")
    return _Place(sequences, found.reward, found.seconds, "length" if cut else "stop")


def _fill_rewards(places: Sequence[_Place], groups: Sequence[Any]) -> None:
    """SkyRL wants a number for each trajectory. A failed one gets the mean of its group, which moves no baseline, or of
    the batch; its tokens are masked."""
    good = [one.reward for one in places if one.reward is not None]
    if not good:
        raise next((one.failure for one in places if one.failure), _not_kept())
    if not any(one.sequences for one in places):
        hint = "serve the policy by vllm_model with return_token_id_information: true, or by a model that says ids"
        raise UserError("no rollout of the batch holds token ids", hint)
    for place, group in zip(places, groups, strict=True):
        if place.failure is not None:
            of_group = [one.reward for one, other in zip(places, groups, strict=True) if other == group]
            place.reward = fmean([one for one in of_group if one is not None] or good)


def _to_output(places: Sequence[_Place], ids: Sequence[Any], *, step_wise: bool) -> dict[str, Any]:
    taken = [(one.sequences if step_wise else one.sequences[-1:]) or [NOTHING] for one in places]
    flat = [
        (place, sequence, number == len(sequences), trajectory)
        for place, sequences, trajectory in zip(places, taken, ids, strict=True)
        for number, sequence in enumerate(sequences, 1)
    ]
    return {
        "prompt_token_ids": [sequence.prompt_ids for _, sequence, _, _ in flat],
        "response_ids": [sequence.completion_ids for _, sequence, _, _ in flat],
        "rewards": [place.reward for place, _, _, _ in flat],
        "loss_masks": [sequence.mask for _, sequence, _, _ in flat],
        "rollout_logprobs": [sequence.log_probs for _, sequence, _, _ in flat],
        "stop_reasons": [place.stop for place, _, _, _ in flat],
        "trajectory_ids": None if None in ids else [trajectory for _, _, _, trajectory in flat],
        "trajectory_generation_times": [place.seconds for place, _, _, _ in flat],
        "is_last_step": [last for _, _, last, _ in flat] if step_wise else None,
        "rollout_metrics": _count(places),
        **dict.fromkeys(UNUSED),
    }


def _count(places: Sequence[_Place]) -> dict[str, int]:
    kinds = Counter(one.failure.kind for one in places if one.failure)
    return {
        "gym/failures": kinds.total(),
        **{f"gym/failures/{kind}": count for kind, count in kinds.items()},
        "gym/rollouts_with_breaks": sum(len(one.sequences) > 1 for one in places),
        "gym/rollouts_without_tokens": sum(not one.sequences and one.failure is None for one in places),
    }


def _to_params(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """A policy that is sampled otherwise than SkyRL believes has wrong log-probs: what cannot be sent is refused."""
    for name, value in sampling.items():
        if name not in SAMPLING and name not in FORM and value not in (None, [], NEUTRAL.get(name)):
            hint = "say it in the stack's model: sampling_overrides of vllm_model, and take it out of sampling_params"
            raise UserError(f"sampling_params.{name} is {value!r}: a row cannot carry it", hint)
    return {SAMPLING[name]: value for name, value in sampling.items() if name in SAMPLING and value is not None}


def _to_messages(given: Any) -> list[dict[str, str]]:
    messages = [one for one in items.input_items(given) if one.get("role")]
    return [{"role": str(one["role"]), "content": items.item_text(one)} for one in messages]


def _not_kept() -> RolloutError:
    return RolloutError("agent", "the agent asked not to keep the rollout", retryable=False)
