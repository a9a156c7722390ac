"""Agent Lightning: a runner job that does one rollout of its server by one `/run`, with the rollout's proxy as policy.

The reward is reported as an event. A rollout that only the infrastructure failed is failed there, with no reward.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gym.client import AsyncStack
from gym.errors import InfraError, UserError
from gym.http.pool import HttpClient
from gym.labels import ENV_TOKEN
from gym.trainers.run import run_row
from gym.wire.json_text import read_exact_json
from gym.wire.policy_endpoint import KEY, URL

Json = dict[str, Any]
SECONDS: Final = 30.0  # for one call of its server
SHARE: Final = 0.9  # of the rollout's time: afterwards the controller kills the job, which could say nothing any more
# Events of other attempts are not trained on. Without this its trainer gives recorded calls without a reward a 0.
SET_ASIDE: Final = "failed"


class GymAgent:
    """For a local runner: `agent_class: gym.trainers.agent_lightning:GymAgent`."""

    async def run(self) -> None:
        await run_job(os.environ)


async def run_job(environ: Mapping[str, str]) -> float:
    """The reward that was reported; an exception fails the job and its rollout."""
    job = read_job(environ)
    http = HttpClient(asks_health=False)
    try:
        rollout = (await job.call(http, "GET", job.rollout_url))["rollout"]
        found = await _run(job, read_row(rollout["input"]), rollout["config"].get("timeout_seconds"))
        reward = float(found["reward"])
        data = {"value": reward, "source": "agent", "reason": found.get("reason")}
        await job.call(http, "POST", job.event_url, {"event_type": "reward", "data": data})
    except Exception as error:  # whatever it is, the rollout has no reward
        status = {"state": "failed", "error_message": str(error)[:2000], "last_attempt_id": SET_ASIDE}
        await job.call(http, "PATCH", job.rollout_url, {"status": status})
        raise
    finally:
        await http.aclose()
    return reward


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """What the controller and the job's configuration say."""

    policy_url: str
    event_url: str
    stack_url: str
    agent: str = ""  # for rows that name none
    key: str = field(default="", repr=False)  # of Agent Lightning's server
    token: str = field(default="", repr=False)  # of the stack

    @property
    def rollout_url(self) -> str:
        return self.event_url.rpartition("/attempt/")[0]

    async def call(self, http: HttpClient, method: str, url: str, body: Json | None = None) -> Json:
        headers = [(b"authorization", f"Bearer {self.key}".encode())] if self.key else []
        sent = orjson.dumps(body) if body else b""
        try:
            reply = await http.request(method, url, body=sent, headers=headers, timeout=SECONDS)
        except (OSError, TimeoutError) as error:
            raise InfraError(f"{method} {url}: {error}", "is Agent Lightning's server still there?") from error
        if reply.status >= 400:
            raise InfraError(f"{method} {url} answered {reply.status}: {reply.body[:300].decode('utf-8', 'replace')}")
        answer: Json = orjson.loads(reply.body)
        return answer


def read_job(environ: Mapping[str, str]) -> TrainingJob:
    needed = ("AGL_OPENAI_BASE_URL", "AGL_EVENT_URL", "GYM_URL")
    if missing := [name for name in needed if not environ.get(name)]:
        hint = "the controller sets AGL_...; GYM_URL is the stack's: put it into env_map, or into the job's template"
        raise UserError(f"not set: {', '.join(missing)}", hint)
    policy, events, stack = (environ[name] for name in needed)
    agent, key, token = (environ.get(name, "") for name in ("GYM_AGENT", "AGL_KEY", ENV_TOKEN))
    return TrainingJob(policy, events, stack, agent, key, token)


def read_row(given: Any) -> Json:
    """A rollout's input is the row, or has it as JSON in `row`: columns would fill up with nulls."""
    row = read_exact_json(given["row"]) if isinstance(given, dict) and isinstance(given.get("row"), str) else given
    if not isinstance(row, dict):
        raise UserError(f"the rollout's input is not a row: {str(row)[:100]}", "a row is a JSON object")
    return row


async def _run(job: TrainingJob, row: Json, seconds: float | None) -> Json:
    policy = {URL: job.policy_url, **({KEY: job.key} if job.key else {})}
    async with AsyncStack.connect(job.stack_url, token=job.token, timeout=SHARE * (seconds or 3600.0)) as stack:
        return await run_row(stack, {**row, **policy}, agent=job.agent)


if __name__ == "__main__":
    asyncio.run(run_job(os.environ))
