"""mini-swe-agent in the sandbox of a `swe` session: the package's own loop and prompts, our model, our judge."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import orjson
from package import Bridge, SessionEnvironment, StackModel, load_package, to_items
from pydantic import Field

from gym.server import Agent, AgentConfig
from gym.server.agent import RunRow
from gym.server.rollout_client import RolloutClient
from gym.wire import items
from gym.wire.failures import RolloutError
from gym.wire.splice import splice


class MiniSweConfig(AgentConfig):
    concurrency: int = Field(default=64, ge=1)  # rollouts at once; each has a thread
    step_limit: int = Field(default=250, ge=1)
    collapse_limit: int = Field(default=3, ge=0)  # answers in a row without a command; 0: no limit
    step_timeout: float = Field(default=600.0, gt=0)  # of one command
    eval_timeout: float | None = Field(default=None, gt=0)  # of the tests; the environment's own, if left out
    run_golden: bool = False
    grade: Literal["sandbox", "submission"] = "sandbox"
    # Of configs for other runtimes; here the environment's `sandbox:` and `places:` say where commands run.
    env: str | None = None
    cache_dir_template: str | None = None
    skip_if_exists: bool | None = None


class MiniSweAgent(Agent):
    config: MiniSweConfig

    async def start(self) -> None:
        self.package = load_package()
        self.threads = ThreadPoolExecutor(self.config.concurrency, thread_name_prefix="mini")

    async def stop(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, row: RunRow, rollout: RolloutClient) -> bytes:
        if self.config.eval_timeout is not None and "eval_timeout" not in row.fields:
            row = with_fields(row, {"eval_timeout": self.config.eval_timeout})
        if self.config.run_golden:
            return await self._grade_gold(row, rollout)
        reply = await rollout.post(rollout.resources_server, "/seed_session", row.body, kind="resources", hop="seed")
        rollout.session_open = True
        handle = orjson.loads(reply.body).get("sandbox_handle") or {}
        agent, result = await self._work(row, rollout, str(handle.get("workdir") or ""))
        params = {**row.params, "input": to_items(agent.messages[:2])}
        info = {"instance_id": row.fields.get("instance_id"), "exit_status": result.get("exit_status", "")}
        fields: dict[str, Any] = {"responses_create_params": params, "mini_swe_agent": info}
        if self.config.grade == "submission":
            fields["model_patch"] = result.get("submission", "")
        row = with_fields(row, fields)
        return await rollout.verify(row.body, row.fields, self._response(agent, result))

    async def respond_to(self, row: RunRow, rollout: RolloutClient) -> dict[str, Any]:
        raise RolloutError("row", "mini_swe_agent works on rows of `swe`: POST /run", retryable=False)

    async def _work(self, row: RunRow, rollout: RolloutClient, cwd: str) -> tuple[Any, dict[str, Any]]:
        bridge = Bridge()
        params = {key: value for key, value in row.params.items() if key not in ("input", "tools")}
        model = StackModel(self.package, bridge, rollout, params)
        place = SessionEnvironment(self.package, bridge, rollout, cwd, self.config.step_timeout)
        agent = self.package.agent(
            model,
            place,
            **{
                **self.package.config["agent"],
                "step_limit": min(self.config.step_limit, self.config.max_steps or self.config.step_limit),
                "cost_limit": 0.0,
                "wall_time_limit_seconds": 0,
                "max_consecutive_format_errors": self.config.collapse_limit,
            },
        )
        loop = asyncio.get_running_loop()
        try:
            result = await loop.run_in_executor(self.threads, agent.run, task_text(row))
        finally:
            bridge.stop()
        return agent, result

    def _response(self, agent: Any, result: dict[str, Any]) -> dict[str, Any]:
        status = str(result.get("exit_status", ""))
        response = {**agent.model.last, "output": to_items(agent.messages[2:]), "usage": agent.model.usage}
        response["exit_status"] = status
        return response if status == "Submitted" else {**response, "truncated_by": status}

    async def _grade_gold(self, row: RunRow, rollout: RolloutClient) -> bytes:
        """Grades the row's own patch, without a model and without an agent's sandbox."""
        gold = row.fields.get("patch")
        if not isinstance(gold, str) or not gold.strip():
            raise RolloutError("row", "run_golden: the row has no `patch`", retryable=False)
        row = with_fields(row, {"model_patch": gold})
        return await rollout.verify(row.body, row.fields, items.response([], model="golden"))


def task_text(row: RunRow) -> str:
    problem = row.fields.get("problem_statement")
    if isinstance(problem, str) and problem.strip():
        return problem
    given = items.last_user_text(row.params.get("input"))
    if not given.strip():
        raise RolloutError("row", "problem_statement: a text is needed, or a question in the input", retryable=False)
    return given


def with_fields(row: RunRow, fields: dict[str, Any]) -> RunRow:
    return RunRow(splice(row.body, fields, keys=row.fields), {**row.fields, **fields})


app = MiniSweAgent.app()
