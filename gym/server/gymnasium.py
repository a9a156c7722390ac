"""`GymnasiumServer`: environments of turns. An author writes `reset` and `step`; `gymnasium_agent` drives them.

`/verify` replays a finished rollout from its row, so that its reward can be checked without its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from gym.server.asgi import Answer, Call
from gym.server.author_hook import Hook
from gym.server.author_shape import refuse_bad_methods
from gym.server.base import Route, json_answer
from gym.server.config import Settings
from gym.server.errors import validation_message
from gym.server.resources import ResourcesConfig, ResourcesServer
from gym.server.score import Score, reward_fields
from gym.wire import items
from gym.wire.deep_values import write_cut
from gym.wire.failures import RolloutError
from gym.wire.observations import Observation as Observation  # for servers
from gym.wire.rows import ReverifyMode, Row, VerifyRequest, read_body

S = TypeVar("S")
STEP_ID = "_ng_step_request_id"  # the same id again: the same answer, and no second step
FEATURES = {"supports_explicit_close": True, "supports_step_idempotency": True}


class Step(NamedTuple):
    """What an action led to. `tool_outputs` are `{call_id, output}` of the calls in it."""

    observation: Observation = None
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    tool_outputs: tuple[dict[str, str], ...] = ()
    info: dict[str, Any] | None = None

    @classmethod
    def of(cls, observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any = None) -> Self:
        """What the gymnasium package's `step` returns: `Step.of(*environment.step(action))`. Its `info` is left out."""
        return cls(observation, reward, bool(terminated), bool(truncated))

    @property
    def ends(self) -> bool:
        return self.terminated or self.truncated

    def to_dict(self) -> dict[str, Any]:
        outputs = {"tool_outputs": list(self.tool_outputs)} if self.tool_outputs else {}
        reply = {"observation": self.observation, "reward": self.reward, "info": {**(self.info or {}), **outputs}}
        return {**reply, "terminated": self.terminated, "truncated": self.truncated}


class EpisodeScore(Score):
    """Of an episode that was replayed."""

    num_steps: int
    terminated: bool

    @classmethod
    def of(cls, reward: float, steps: int, *, ended: bool) -> Self:
        reason = "" if ended else "the episode was not played to its end"
        return cls(reward=reward, num_steps=steps, terminated=ended, reason=reason)


class Action(VerifyRequest):
    """The row again, and the model's latest reply as `response`."""


@dataclass(slots=True)
class Episode(Generic[S]):
    state: S
    done: bool = False
    last_id: str = ""
    last_reply: bytes = b""
    shown: Observation = None  # the first observation, where `/seed_session` opened the episode
    acting: asyncio.Lock = field(default_factory=asyncio.Lock)  # one action at a time
    failure: Exception | SystemExit | None = None  # of a step: its outcome is unknown, so nothing is paid


class GymnasiumServer(ResourcesServer[Episode[S]], Generic[S]):
    """Subclass it; `S` is the type of one episode's state."""

    shares_state: ClassVar[bool] = False  # an episode is a lock and a failure too, which no store holds
    reverify_mode: ClassVar[ReverifyMode] = "stateless"  # say "unsupported" where chance enters

    def __init__(self, config: ResourcesConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self._reset = Hook.of(self.reset, Row)

    # What an author overrides.

    async def reset(self, row: Any) -> tuple[S, Observation]:
        """A new episode: its state, and what the model sees after the row's own input. Type `row` with a `Row`."""
        raise NotImplementedError(f"{type(self).__name__} has no reset")

    async def step(self, action: Action, state: S) -> Step:
        """What the model's reply leads to."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    async def leave(self, state: S) -> None:
        """Let go of what a state holds, however its episode ended."""

    # What the contract asks for.

    @property
    def row_model(self) -> type[BaseModel]:
        return self._reset.model

    def check_methods(self) -> None:
        super().check_methods()
        refuse_bad_methods(self, {"reset": ("row",), "step": ("action", "state")})

    def routes(self) -> list[Route]:
        own = [
            Route("/reset", self._on_reset, "Begin an episode for a row", self._reset.model),
            Route("/step", self._on_step, "Act once", Action),
            Route("/close", self._on_close, "End the episode early"),
        ]
        return own + super().routes()

    async def close(self, state: Episode[S]) -> None:
        if not state.done:
            await self.leave(state.state)

    async def verify(self, rollout: VerifyRequest) -> EpisodeScore:
        return await self.replay(rollout)

    async def replay(self, rollout: VerifyRequest, episode: Episode[S] | None = None) -> EpisodeScore:
        """The reward of a rollout's replies, played in `episode`, or in one of their own."""
        row = rollout.model_dump(exclude={"response"})
        played = episode or Episode((await self.reset(_typed(self._reset.model, row)))[0])
        steps: list[Step] = []
        try:
            for output in split_turns(rollout.response.output):
                steps.append(await self.play(played, Action(**row, response={"output": output})))
                if steps[-1].ends:
                    break
        finally:
            if episode is None:
                await self.close(played)
        ended = bool(steps) and steps[-1].ends
        return EpisodeScore.of(sum(one.reward for one in steps), len(steps), ended=ended)

    async def _on_reset(self, call: Call) -> Answer:
        held = self.sessions.drop(self.session_id(call))
        if held is not None:
            await self._release(held)
        state, observation = await self._reset(call.body, None)
        session = self.sessions.open(Episode(state))
        return json_answer({"observation": observation, "info": FEATURES}, self._set_cookie(session.id))

    async def _on_step(self, call: Call) -> Answer:
        episode = self.find_episode(self.session_id(call))
        action = read_body(Action, call.body)
        step_id = str((action.model_extra or {}).get(STEP_ID) or "")
        async with episode.acting:
            if step_id and step_id == episode.last_id:
                return Answer(episode.last_reply)
            if episode.done:
                raise RolloutError("row", "this episode is over: POST /reset begins another")
            step = await self.play(episode, action)
            reply = {**step.to_dict(), **reward_fields(step.reward)}
            episode.last_id, episode.last_reply = step_id, write_cut(reply)
            return Answer(episode.last_reply)

    async def play(self, episode: Episode[S], action: Action) -> Step:
        """One step of an episode, which is left where that ends it."""
        try:
            step = await self.step(action, episode.state)
        except (Exception, SystemExit) as error:
            episode.failure = error
            raise
        if step.ends:
            episode.done = True
            await self.leave(episode.state)
        return step

    def find_episode(self, session_id: str) -> Episode[S]:
        if not session_id:
            raise RolloutError("row", "a step needs an episode: POST /reset first, and send its cookie along")
        session = self.sessions.find(session_id)
        if session is None:
            raise self._lost()
        episode: Episode[S] = session.state
        return episode


def _typed(model: type[BaseModel], row: dict[str, Any]) -> BaseModel:
    try:
        return read_body(model, to_json(row))
    except ValidationError as error:
        raise RolloutError("row", validation_message(error, model)) from None


def split_turns(output: Sequence[items.Item]) -> Iterator[list[items.Item]]:
    """The model's replies in a rollout: ended by an item of another role, or by a message when it speaks on."""
    turn: list[items.Item] = []
    for item in output:
        own = items.is_message(item) or item.get("type") in ("reasoning", "function_call")
        speaks_on = own and item.get("type") != "function_call" and turn and items.is_message(turn[-1])
        if turn and (speaks_on or not own):
            yield turn
            turn = []
        if own:
            turn.append(item)
    if turn:
        yield turn
