"""`WholeAgent`: a library owns the loop. An author writes `play`; the model calls that it makes become the rollout.

The library is given a URL that is the policy for this rollout alone, and the environment's tools. It needs to know
nothing of rollouts, budgets, sessions or token ids, and it is used as it comes from its registry.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from gym.server.adapters.play_faults import fault_of_policy
from gym.server.adapters.play_gate import PlayGate, PlayGates
from gym.server.adapters.play_thread import PlayThreads
from gym.server.adapters.play_tools import PlayLimits, PlayTool, play_tools
from gym.server.adapters.play_verdict import PlayVerdict
from gym.server.agent import Agent, AgentConfig, RunRow
from gym.server.agent_tools import AgentTools
from gym.server.config import Settings
from gym.server.rollout_client import RolloutClient
from gym.server.run_trace import RunTrace
from gym.wire import items
from gym.wire.call_sequences import CallSequence, sequences_of
from gym.wire.chat import responses_to_chat
from gym.wire.failures import RolloutError
from gym.wire.json_text import read_json
from gym.wire.rows import PARAMS
from gym.wire.splice import splice

VERIFY_SHARE, VERIFY_SECONDS = 0.1, 60.0  # of the rollout's time, kept for the verdict; and the most of it
CANCEL_SECONDS = 5.0  # for a play that is ended to give up; one that does not is left behind
LEAST_PAUSE = 0.05  # between two looks at how long a play has run
Said = str | Sequence[Mapping[str, Any]] | None


class WholeAgentConfig(AgentConfig):
    """`max_steps` is how many model calls a play may make, those of its sub-agents among them."""

    play_seconds: float | None = Field(default=1800.0, gt=0)  # without the time that the model and the tools take


@dataclass(frozen=True, slots=True)
class PlayTask:
    """What a rollout is about: the row, with what the environment has added to it."""

    row: Mapping[str, Any]
    params: Mapping[str, Any]
    mcp_url: str  # the same tools, for an MCP client (streamable HTTP)
    mcp_headers: Mapping[str, str] = field(repr=False)
    rollout: RolloutClient = field(repr=False)  # the way to the environment, and to other servers of the stack

    @property
    def text(self) -> str:
        """Everything that is asked, without the system's words."""
        given = items.input_items(self.params.get("input"))
        return "\n\n".join(filter(None, (items.item_text(one) for one in given if one.get("role") not in SYSTEM)))

    @property
    def system(self) -> str:
        given = items.input_items(self.params.get("input"))
        said = (items.item_text(one) for one in given if one.get("role") in SYSTEM)
        return "\n\n".join(filter(None, (self.params.get("instructions"), *said)))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The whole conversation so far as chat messages, the system's among them."""
        asked = {name: self.params[name] for name in ("input", "instructions") if self.params.get(name)}
        return list(responses_to_chat(asked)["messages"])


class PolicyAccess(NamedTuple):
    """The policy, for this rollout alone. `base_url` ends in /v1; `root_url` is for clients that add it themselves."""

    base_url: str
    key: str
    name: str

    @property
    def root_url(self) -> str:
        return self.base_url.removesuffix("/v1")


@dataclass(slots=True)
class Played:
    """How a play ended: what it said at last, what it was cut by, why."""

    said: Said = None
    truncated_by: str = ""
    fault: str = ""
    verdict: PlayVerdict | None = None  # of a library that judges by itself
    found: list[CallSequence] = field(default_factory=list)


class WholeAgent(Agent):
    """Subclass it. `play` may be `async def`, or `def` for a library that is not asynchronous: it gets a thread."""

    config: WholeAgentConfig
    policy_errors: ClassVar[tuple[type[Exception], ...]] = ()  # what the policy's words alone make your `play` raise

    def __init__(self, config: WholeAgentConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.gates = self.own(PlayGates())
        self.threads = PlayThreads()

    # What an author writes.

    def play(self, task: PlayTask, model: PolicyAccess, tools: Sequence[PlayTool]) -> Any:
        """The last words of the library, as a text or as items, or None; a `PlayVerdict` where it judges by itself."""
        raise NotImplementedError(f"{type(self).__name__} has no play")

    # What makes a rollout of it.

    async def run(self, row: RunRow, rollout: RolloutClient) -> bytes:
        wanted = rollout.trace is not None
        row = await self.seed(row, rollout)
        played, response = await self._respond(row.params, row.fields, rollout)
        if not wanted:
            await rollout.drop_trace()
        row = row.with_params(asked_params(row.params, played.found))
        if played.verdict is not None:
            return splice(row.body, {**played.verdict.to_fields(), "response": response}, keys=row.fields)
        if self.config.skip_verification:
            skipped = {"reward": self.config.skip_verification_reward, "verification_skipped": True}
            return splice(row.body, {"response": response, **skipped}, keys=row.fields)
        body = await rollout.verify(row.body, row.fields, response)
        return add_fault(body, played.fault)

    async def respond(self, params: Mapping[str, Any], rollout: RolloutClient) -> dict[str, Any]:
        try:
            _, response = await self._respond(params, {PARAMS: params}, rollout)
        finally:
            self._take_leave(rollout)
        return response

    async def _respond(
        self, params: Mapping[str, Any], row: Mapping[str, Any], rollout: RolloutClient
    ) -> tuple[Played, dict[str, Any]]:
        rollout.trace = rollout.trace or RunTrace()
        agent_tools = rollout.agent_tools = rollout.agent_tools or AgentTools(self.config.agents)
        played = await self._play(agent_tools.offered(params), row, rollout)
        recorded = read_json(await rollout.fetch_trace())
        played.found = await asyncio.to_thread(sequences_of, recorded["calls"])
        response = make_played_response(played, model=rollout.model_server)
        if agent_tools.record:
            response["agent_calls"] = agent_tools.record
        return played, response

    async def _play(self, params: Mapping[str, Any], row: Mapping[str, Any], rollout: RolloutClient) -> Played:
        limits = PlayLimits(self.config)
        gate = PlayGate(rollout, params, limits)

        async def call(name: str, arguments: str) -> str:
            return await gate.call_tool(name, arguments, self._calling(rollout))

        tools = gate.tools = play_tools(params, call)
        url = await self.gates.open(gate)
        try:
            policy = PolicyAccess(f"{url}/v1", gate.key, str(params.get("model") or rollout.model_server))
            headers = {"authorization": f"Bearer {gate.key}"}
            task = PlayTask(row, params, f"{url}/mcp", headers, rollout)
            return await self._see_through(self._begin(task, policy, tools), gate, limits, rollout)
        finally:
            await self.gates.close(url)

    def _calling(self, rollout: RolloutClient) -> Any:
        async def call_one(name: str, arguments: str) -> str:
            made = items.function_call(name, arguments)
            return str((await self.call_tool(made, rollout))["output"])

        return call_one

    async def _begin(self, task: PlayTask, model: PolicyAccess, tools: Sequence[PlayTool]) -> Any:
        if inspect.iscoroutinefunction(self.play):
            return await self.play(task, model, tools)
        return await self.threads.run(lambda: self.play(task, model, tools))

    async def _see_through(self, work: Any, gate: PlayGate, limits: PlayLimits, rollout: RolloutClient) -> Played:
        """Until the play ends, or has to. Raises what only the infrastructure, or the author, can have caused."""
        playing = asyncio.ensure_future(work)
        ended = asyncio.ensure_future(limits.ended.wait())
        try:
            await self._wait(playing, ended, gate, limits, rollout)
        finally:
            await _end_task(ended)
            await _end_task(playing)
        if limits.failure is not None:
            raise limits.failure
        if limits.ended.is_set() and (not playing.done() or playing.cancelled() or playing.exception()):
            return Played(truncated_by=limits.spent)
        played = self._outcome(playing, gate.answered)
        played.truncated_by = "library_error" if played.fault else limits.spent
        return played

    async def _wait(
        self,
        playing: asyncio.Future[Any],
        ended: asyncio.Future[Any],
        gate: PlayGate,
        limits: PlayLimits,
        rollout: RolloutClient,
    ) -> None:
        left = rollout.seconds_left
        kept = min(left * VERIFY_SHARE, VERIFY_SECONDS)
        while not playing.done() and not ended.done():
            own = float("inf") if self.config.play_seconds is None else self.config.play_seconds - gate.own_seconds()
            left = rollout.seconds_left - kept
            if left <= 0 and gate.clock.is_waiting:
                raise RolloutError("timeout", "the rollout's time was over in a call of its play", server=self.name)
            if own <= 0 or left <= 0:
                limits.end("play_seconds" if own <= 0 else "max_seconds")
                return
            pause = max(min(own, left), LEAST_PAUSE)
            await asyncio.wait((playing, ended), timeout=pause, return_when=asyncio.FIRST_COMPLETED)

    def _outcome(self, playing: asyncio.Future[Any], answered: int) -> Played:
        error = playing.exception()
        if isinstance(error, RolloutError):
            raise error
        if error is not None:
            fault = fault_of_policy(
                error, here=self.here, answered=answered, blamed=self.policy_errors, server=self.name
            )
            return Played(fault=fault)
        said = playing.result()
        if not answered and (said is None or isinstance(said, PlayVerdict)):
            raise RolloutError("agent", "play asked the model nothing and returned nothing", retryable=False)
        return Played(verdict=said) if isinstance(said, PlayVerdict) else Played(said=check_said(said))


def check_said(said: Any) -> Said:
    if said is None or isinstance(said, str):
        return said
    if isinstance(said, list | tuple) and all(isinstance(one, Mapping) and one.get("type") for one in said):
        return list(said)
    what = f"play returned {said!r:.200}: a text, a list of items with a `type`, or None is needed"
    raise RolloutError("agent", what, retryable=False)


def make_played_response(played: Played, *, model: str) -> dict[str, Any]:
    """The sequence of the last call is the response; others, of sub-agents or before a compaction, stand beside it."""
    last = played.found[-1] if played.found else None
    usage: dict[str, Any] | None = None
    for one in played.found:
        usage = items.add_usage(usage, one.usage)
    output = [*(last.output if last else ()), *_said_at_last(played.said, last)]
    params = {"tools": last.tools} if last else {}
    response = items.response(output, model=last.model if last else model, params=params, usage=usage)
    response["other_sequences"] = [one.to_fields() for one in played.found[:-1]]
    if played.fault:
        response["reason"] = played.fault
    return {**response, "truncated_by": played.truncated_by} if played.truncated_by else response


def asked_params(params: Mapping[str, Any], found: list[CallSequence]) -> dict[str, Any]:
    """The row's parameters with what the model has really been asked: a library has prompts of its own."""
    if not found:
        return dict(params)
    last = found[-1]
    return {**params, "input": last.input, **({"tools": last.tools} if last.tools else {})}


def add_fault(body: bytes, fault: str) -> bytes:
    """A reward of 0 says why, where the environment does not."""
    if not fault:
        return body
    fields = read_json(body)
    if fields.get("reward") or fields.get("reason"):
        return body
    return splice(body, {"reason": fault}, keys=fields)


def _said_at_last(said: Said, last: CallSequence | None) -> list[items.Item]:
    """What the model has not said word for word itself."""
    if not isinstance(said, str):
        return [dict(one) for one in said or ()]
    own = items.last_assistant_text(last.output) if last else ""
    return [] if said.strip() == own.strip() else [items.message(said)]


async def _end_task(task: asyncio.Future[Any]) -> None:
    """A library that catches its own cancellation is left behind: its URL and its tools answer nothing any more."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=CANCEL_SECONDS)
    if not task.done():
        task.add_done_callback(_mark_left)


def _mark_left(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


SYSTEM = ("system", "developer")
