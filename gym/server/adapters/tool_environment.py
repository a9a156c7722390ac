"""`ToolEnvironment`: tools that are known only once a rollout has begun. An author writes `open` and `call`.

`/seed_session` answers with the tools and the first observation, which agents merge into what they ask the model. Each
tool is a route of its own, for the sessions that have it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from gym.labels import HEADER_EPISODE_OVER
from gym.server.adapters.rewards import RewardMeaning, RewardReader, check_reward
from gym.server.asgi import Answer, Call, Handler
from gym.server.author_hook import Hook
from gym.server.config import Settings
from gym.server.resources import ResourcesConfig, ResourcesServer
from gym.server.score import Score
from gym.server.tools import may_be_tool, result_to_json
from gym.wire import items
from gym.wire.calls import read_arguments
from gym.wire.failures import RolloutError
from gym.wire.observations import Observation, observation_items
from gym.wire.rows import ReverifyMode, Row, VerifyRequest

S = TypeVar("S")
LONGEST_NAME = 64
OVER = ((HEADER_EPISODE_OVER.encode(), b"1"),)


class ToolEnvironmentConfig(ResourcesConfig):
    rewards: RewardMeaning = "per_step"
    max_calls: int | None = 1000  # of one rollout; the call after them ends it


class OpenedTools(NamedTuple, Generic[S]):
    """A session's beginning. `tools` as a row's `tools` list has them: {name, description, parameters}."""

    state: S
    tools: Iterable[Mapping[str, Any]]
    observation: Observation = None


class ToolReply(NamedTuple):
    """What a call led to. `output` is text, or anything that JSON can say."""

    output: Any
    reward: float = 0.0
    done: bool = False
    reason: str = ""  # for the rollout: why it ends here


class BadCall(Exception):
    """Raise it for a call that cannot be made as the model wrote it: the message is what the model reads."""


@dataclass(slots=True)
class ToolSession(Generic[S]):
    state: S
    tools: dict[str, dict[str, Any]]  # as the model knows them
    names: dict[str, str]  # the model's name of a tool -> the library's
    rewards: RewardReader
    observation: Observation = None
    calls: int = 0
    done: bool = False
    reason: str = ""
    acting: asyncio.Lock = field(default_factory=asyncio.Lock)
    failure: Exception | SystemExit | None = None  # of a call: its outcome is unknown, so nothing is paid


class ToolEnvironment(ResourcesServer[ToolSession[S]], Generic[S]):
    """Subclass it; `S` is the type of one rollout's state."""

    config: ToolEnvironmentConfig
    reverify_mode: ClassVar[ReverifyMode] = "stateless"  # say "unsupported" where chance, or a world outside, enters

    def __init__(self, config: ToolEnvironmentConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self._seed = Hook.of(self.seed, Hook.of(self.open, Row).model)
        self._known: set[str] = set()  # every name that a session's tool has had: what else is asked for is not a route

    # What an author overrides.

    async def open(self, row: Any) -> OpenedTools[S]:
        """The state, tools and first observation of a row. Type `row` with a `Row` to have its fields checked."""
        raise NotImplementedError(f"{type(self).__name__} has no open")

    async def call(self, state: S, name: str, arguments: dict[str, Any]) -> ToolReply:
        """What a call of one of its tools leads to."""
        raise NotImplementedError(f"{type(self).__name__} has no call")

    async def finish(self, state: S, rollout: VerifyRequest) -> float | Score | None:
        """A reward on top of those of the calls, where the environment judges the end; None for none."""
        return None

    async def discard(self, state: S) -> None:
        """Let go of what a state holds, however its rollout ended."""

    # What turns them into a resources server.

    async def seed(self, row: Any) -> ToolSession[S]:
        opened = await self.open(row)
        tools, names = name_tools(opened.tools)
        self._known.update(tools)
        rewards = RewardReader(self.config.rewards)
        return ToolSession(opened.state, tools, names, rewards, opened.observation)

    def advertise(self, state: ToolSession[S]) -> dict[str, Any]:
        return {"tools": list(state.tools.values()), "observation": observation_items(state.observation)}

    async def close(self, state: ToolSession[S]) -> None:
        await self.discard(state.state)

    def find_tool(self, path: str) -> Handler | None:
        return self._on_call if path[1:] in self._known else None

    async def verify(self, rollout: VerifyRequest, state: ToolSession[S] | None = None) -> dict[str, Any]:
        """What the calls have earned; without their session they are repeated, in one of their own."""
        if state is not None:
            if state.failure:
                raise state.failure
            return await self._outcome(state, rollout)
        session: ToolSession[S] = await self._seed(rollout.model_dump_json(exclude={"response"}).encode(), None)
        try:
            for call in calls_made(rollout.response.output):
                await self.make_call(session, str(call.get("name")), str(call.get("arguments") or "{}").encode())
            return await self._outcome(session, rollout)
        finally:
            await self.close(session)

    async def make_call(self, session: ToolSession[S], name: str, arguments: bytes) -> Any:
        """The output of a call as the model reads it, its own mistakes as well."""
        async with session.acting:
            if session.done:
                return {"error": "The episode is over: no tool can be called any more."}
            if name not in session.names:
                known = ", ".join(session.names) or "none"
                return {"error": f"There is no tool named {name!r}. There are: {known}."}
            parsed = _read_arguments(arguments)
            if parsed is None:
                return {"error": "The arguments are not a JSON object."}
            session.calls += 1
            try:
                reply = await self.call(session.state, session.names[name], parsed)
            except BadCall as error:
                reply = ToolReply({"error": str(error)})
            except (Exception, SystemExit) as error:
                session.failure = error
                raise
            return self._taken(session, reply)

    def _taken(self, session: ToolSession[S], reply: ToolReply) -> Any:
        what = f"{type(self).__name__}.call"
        if not isinstance(reply, ToolReply):
            raise RolloutError("resources", f"{what} returned {reply!r:.100}: a ToolReply is needed", retryable=False)
        last = self.config.max_calls is not None and session.calls >= self.config.max_calls
        session.done = reply.done or last
        session.reason = reply.reason
        session.rewards.read(reply.reward, ends=session.done, what=what)
        return reply.output

    async def _outcome(self, session: ToolSession[S], rollout: VerifyRequest) -> dict[str, Any]:
        more = await self.finish(session.state, rollout)
        fields = more.to_fields() if isinstance(more, Score) else {"reward": more}
        if fields["reward"] is not None:
            session.rewards.add(check_reward(fields["reward"], f"{type(self).__name__}.finish"))
        why = {"reason": session.reason} if session.reason else {}
        counted = {"num_calls": session.calls, "terminated": session.done}
        return {**why, **fields, "reward": session.rewards.total, **counted}

    async def _on_call(self, call: Call) -> Answer:
        session = self._session(call)
        output = await self.make_call(session, call.path.rpartition("/")[2], call.body)
        headers = OVER if session.done else ()
        if isinstance(output, str):
            return Answer(output.encode("utf-8", "replace"), headers=headers, content_type=b"text/plain; charset=utf-8")
        return Answer(result_to_json(output), headers=headers)

    def _session(self, call: Call) -> ToolSession[S]:
        session_id = self.session_id(call)
        if not session_id:
            raise RolloutError("row", "this tool needs a session: POST /seed_session first, and send its cookie along")
        session = self.sessions.find(session_id)
        if session is None:
            raise self._lost()
        found: ToolSession[S] = session.state
        return found


def name_tools(given: Iterable[Mapping[str, Any]]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The tools under names that a route can have, and the library's name of each: `fs.read` becomes `fs_read`."""
    tools: dict[str, dict[str, Any]] = {}
    names: dict[str, str] = {}
    for one in given:
        own = str(one["name"])
        name = re.sub(r"[^A-Za-z0-9_-]", "_", own)[:LONGEST_NAME] or "tool"
        while not may_be_tool(name) or name in tools:
            name = f"{name[: LONGEST_NAME - 1]}_" if len(name) < LONGEST_NAME else f"{name[:-3]}_{len(tools):02d}"
        names[name] = own
        empty = {"type": "object", "properties": {}}
        described = {"description": one.get("description") or "", "parameters": one.get("parameters") or empty}
        tools[name] = {"type": "function", "name": name, **described, "strict": bool(one.get("strict"))}
    return tools, names


def calls_made(output: Sequence[items.Item]) -> list[items.Item]:
    """The calls that were answered: what a budget cut off was never made."""
    answered = {one.get("call_id") for one in output if one.get("type") == "function_call_output"}
    return [one for one in items.function_calls(output) if one.get("call_id") in answered]


def _read_arguments(body: bytes) -> dict[str, Any] | None:
    parsed = read_arguments(body.strip() or b"{}")
    return parsed if isinstance(parsed, dict) else None
