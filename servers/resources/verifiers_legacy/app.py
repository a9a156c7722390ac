"""Environments of the verifiers package, 0.3 and before: `load_environment`. The package plays and judges."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any, Final

import verifiers as vf
from conversation import as_messages, make_state
from pydantic import Field
from rubrics import RAISED, has_group_functions, is_never_the_answer, watch_rubric
from verifiers.types import ClientConfig

from gym.errors import UserError
from gym.server import ResourcesConfig, VerifyRequest
from gym.server.adapters.play_verdict import PlayVerdict
from gym.server.adapters.played_environment import PlayAccess, PlayedEnvironment, PlayRow, judge_unplayed
from gym.server.adapters.rewards import check_reward
from gym.wire.failures import FailureKind, RolloutError

NO_KEY: Final = "GYM_HAS_NO_SUCH_VARIABLE"  # the package wants the name of one; the policy's key is a header
OF_THE_POLICY: Final = (
    "EmptyModelResponseError",
    "InvalidModelResponseError",
    "ToolError",
    "ToolParseError",
    "ToolCallError",
)
KINDS: Final[dict[str, FailureKind]] = {
    "ModelError": "model",
    "SandboxError": "sandbox",
    "BrowserSandboxError": "sandbox",
}


class LegacyConfig(ResourcesConfig):
    environment: str  # a module, or a package, with `load_environment`
    arguments: dict[str, Any] = Field(default_factory=dict)  # of load_environment


class LegacyTask(VerifyRequest):
    environment: str
    example: dict[str, Any]  # a row of the environment's own data set


class LegacyPlay(PlayRow):
    environment: str
    example: dict[str, Any]


class VerifiersLegacy(PlayedEnvironment):
    play_row = LegacyPlay
    reverify_mode = "stateless"
    config: LegacyConfig

    async def start(self) -> None:
        self.env = load(self.config.environment, self.config.arguments)
        self.never = not isinstance(
            self.env, vf.SingleTurnEnv
        )  # its functions may read what a play leaves in its state
        if self.never:
            self.reverify_mode = "unsupported"
        watch_rubric(self.env.rubric)

    async def stop(self) -> None:
        await self.env._teardown()

    async def play(self, row: LegacyPlay, model: PlayAccess) -> PlayVerdict:
        settings = {"api_base_url": model.base_url, "api_key_var": NO_KEY, "max_retries": 0}
        config = ClientConfig(**settings, extra_headers={"x-api-key": model.key})
        client = vf.OpenAIChatCompletionsClient(config)
        raised: dict[str, Exception] = {}
        RAISED.set(raised)
        try:
            output = await self.env.run_rollout(self.input_of(row), client, model.model, {})
        finally:
            await client.close()
        return await self.verdict_of(row, output, raised)

    async def verdict_of(self, row: LegacyPlay, output: Mapping[str, Any], raised: dict[str, Exception]) -> PlayVerdict:
        stop, error = str(output.get("stop_condition") or ""), output.get("error")
        if error and error["error"] not in OF_THE_POLICY:
            kind = KINDS.get(error["error"], "resources")
            raise RolloutError(kind, f"{error['error']}: {error['message']}"[:1000], retryable=kind != "resources")
        if error:
            return PlayVerdict(0.0, {"reason": f"{error['error']}: {error['message']}"[:500], "stop_condition": stop})
        fields = {"stop_condition": stop, **({"truncated": True} if output.get("is_truncated") else {})}
        judged = await self.judged(row, output.get("reward"), output.get("metrics"), raised)
        return PlayVerdict(judged.pop("reward"), {**judged, **fields})

    async def verify(self, rollout: LegacyTask) -> dict[str, Any]:
        if self.never:
            self.input_of(rollout)
            return judge_unplayed(rollout, f"{type(self.env).__name__} judges where it plays: its agent is play_agent")
        raised: dict[str, Exception] = {}
        RAISED.set(raised)
        state = await self.scored(rollout, as_messages(rollout.response.output))
        return await self.judged(rollout, state["reward"], state["metrics"], raised)

    async def judged(
        self, row: LegacyTask | LegacyPlay, reward: Any, metrics: Any, raised: dict[str, Exception]
    ) -> dict[str, Any]:
        """Where a function has raised, whose fault that was; else the reward, and every function's own number."""
        if raised:
            name, error = next(iter(raised.items()))
            if is_never_the_answer(error) or await self.is_broken(row):
                what = f"{name} of {self.config.environment} raised {type(error).__name__}: {error}"
                raise RolloutError("resources", what[:1000], retryable=is_never_the_answer(error))
            reason = f"{name} cannot read it: {type(error).__name__}: {error}"
            return {"reward": 0.0, "reason": reason[:500]}
        found = {name: check_reward(value, f"the metric {name}") for name, value in (metrics or {}).items()}
        return {"reward": check_reward(reward, "the rubric"), "metrics": found}

    async def is_broken(self, row: LegacyTask | LegacyPlay) -> bool:
        RAISED.set(raised := {})
        await self.scored(row, [{"role": "assistant", "content": ""}])
        return bool(raised)

    async def scored(self, row: LegacyTask | LegacyPlay, messages: list[dict[str, Any]]) -> Any:
        """The state of a conversation that is over, with its scores."""
        state = make_state(self.input_of(row), messages)
        await self.env.rubric.score_rollout(state)
        return state

    def input_of(self, row: LegacyTask | LegacyPlay) -> dict[str, Any]:
        if row.environment != self.config.environment:
            what = f"environment: {row.environment!r}, and this server has {self.config.environment!r}"
            raise RolloutError("row", what)
        return row.example


def load(name: str, arguments: Mapping[str, Any]) -> vf.Environment:
    found = importlib.metadata.version("verifiers")
    if not found.startswith("0.3."):
        raise UserError(
            f"verifiers {found} is installed, and `load_environment` is of 0.3", "for 0.4: the server verifiers"
        )
    try:
        env = vf.load_environment(name, **arguments)
    except ValueError as error:
        cause = error.__cause__
        raise UserError(f"environment: {cause or error}", "add its package to requirements.txt") from None
    except (AttributeError, RuntimeError) as error:
        raise UserError(f"environment: {name}: {error.__cause__ or error}") from None
    if has_group_functions(env.rubric):
        what = f"environment: {name} has functions that compare rollouts with one another; here each is judged alone"
        raise UserError(what, "an environment without them")
    return env


app = VerifiersLegacy.app()
