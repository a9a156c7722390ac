"""A remote runtime of rLLM: each task is one `/run` whose model calls go to the session of rLLM's gateway."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol

from gym.errors import InfraError, first_error
from gym.trainers.carried_rows import put_endpoint, unpack_row
from gym.trainers.single_attempt import run_single
from gym.wire.failures import RolloutError

_SESSION_SECONDS: Final = 3600.0


class Submission(Protocol):
    """The fields of rLLM's `TaskSubmission` that are read."""

    @property
    def task(self) -> dict[str, Any]: ...
    @property
    def session_id(self) -> str: ...
    @property
    def task_id(self) -> str: ...
    @property
    def inference_url(self) -> str: ...


class GymRuntime:
    """Fits rLLM's `RemoteAgentRuntime`. rLLM must be installed where it runs."""

    def __init__(self, url: str, *, agent: str = "", token: str = "", model: str = "") -> None:
        """`agent` is for rows that name none; `model` is sent to the gateway, which chooses a worker by it."""
        self._url, self._agent, self._token, self._model = url, agent, token, model

    def initialize(self) -> None:
        """Nothing stays open between tasks."""

    def shutdown(self) -> None:
        """Nothing stays open between tasks."""

    async def execute_tasks(self, submissions: Sequence[Submission], timeout: float | None = None) -> list[Any]:
        """A `RemoteTaskResult` for each, in order. What failed is not finished and has no reward."""
        seconds = timeout or _SESSION_SECONDS
        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(self._run(one, seconds)) for one in submissions]
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        return [one.result() for one in running]

    async def _run(self, submission: Submission, seconds: float) -> Any:
        began = time.monotonic()
        row = put_endpoint(unpack_row(submission.task), submission.inference_url, model=self._model)
        try:
            rollout = await run_single(self._url, row, agent=self._agent, token=self._token, timeout=seconds)
        except (RolloutError, InfraError) as failure:
            timed_out = isinstance(failure, RolloutError) and failure.kind == "timeout"
            fields = {"finished": False, "error": str(failure), "raw_result": _describe(failure)}
            return _to_result(submission, "TIMEOUT" if timed_out else "ERROR", began, fields)
        fields = {"finished": True, "reward": rollout.reward, "raw_result": rollout.result}
        return _to_result(submission, "ENV_DONE", began, fields)


def _to_result(submission: Submission, reason: str, began: float, fields: dict[str, Any]) -> Any:
    from rllm.engine.remote_runtime.protocol import RemoteTaskResult  # type: ignore[import-not-found]
    from rllm.workflows.workflow import TerminationReason  # type: ignore[import-not-found]

    return RemoteTaskResult(
        session_id=submission.session_id,
        task_id=submission.task_id,
        termination_reason=TerminationReason[reason],
        elapsed=time.monotonic() - began,
        **fields,
    )


def _describe(failure: RolloutError | InfraError) -> dict[str, Any] | None:
    return failure.to_dict() if isinstance(failure, RolloutError) else None
