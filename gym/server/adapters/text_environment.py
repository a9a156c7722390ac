"""`TextEnvironment`: a library's games of text. An author writes `open` and `act`; rows, turns and failures are ours.

The library's code runs in the event loop, under a limit of CPU time: a thousand games cost no thread and no process.
A second model plays the other seats of a game for several.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import orjson
from pydantic import Field

from gym.errors import UserError
from gym.labels import HEADER_EPISODE_OVER
from gym.server.adapters.chance import Chance
from gym.server.adapters.cpu_limit import CpuLimit, CpuLimitReached
from gym.server.adapters.rewards import RewardMeaning, RewardReader
from gym.server.adapters.text_format import TextFormat
from gym.server.asgi import Answer, Call
from gym.server.author_hook import Hook
from gym.server.base import Route, json_answer
from gym.server.config import Reference, Settings
from gym.server.gymnasium import Action, Episode, EpisodeScore, GymnasiumServer, Step
from gym.server.resources import ResourcesConfig
from gym.server.tools import may_be_tool
from gym.wire import items
from gym.wire.deep_values import write_cut
from gym.wire.failures import RolloutError
from gym.wire.observations import Observation, observation_items
from gym.wire.rows import Row, VerifyRequest

E = TypeVar("E")
ACTION = "action"
OVER = ((HEADER_EPISODE_OVER.encode(), b"1"),)
MAX_OTHER_MOVES = 200  # in a row, before it is the policy's turn again


class OthersTurn(NamedTuple):
    """Returned in the place of a `Step`: the second model reads `shown`, and `act` gets what it says."""

    shown: str


class TextEnvironmentConfig(ResourcesConfig):
    system_prompt: str = ""  # before the first observation
    observation: str = "{observation}"  # how an observation is shown
    action: TextFormat = Field(default_factory=TextFormat)
    missing_action_reward: float = 0.0  # of a reply without an action; the environment does not see it
    rewards: RewardMeaning = "per_step"
    max_turns: int | None = Field(default=100, ge=1)
    act_seconds: float = Field(default=5.0, gt=0)  # of CPU time, for one action; of wall time, 12 times as many
    act_tool: str = ""  # the name of a tool for acting, for agents that know /seed_session but not /step
    opponent: Reference | None = None  # the model that plays against the policy
    opponent_prompt: str = "You play a game. Read its rules, then write your move in the form that they ask for."


@dataclass(slots=True)
class Game(Generic[E]):
    """One episode of the library's environment."""

    row: Any
    environment: E
    rewards: RewardReader
    chance: Chance | None = None
    decided: Step | None = None  # where the others ended it before the policy's first move
    actions: list[str] = field(default_factory=list)
    turns: int = 0


class TextEnvironment(GymnasiumServer[Game[E]], Generic[E]):
    """Subclass it; `E` is the type of the library's environment."""

    config: TextEnvironmentConfig
    bad_action: ClassVar[tuple[type[Exception], ...]] = ()  # what `act` raises for an action that cannot be
    own_random: ClassVar[bool] = False  # the library rolls with `random`: each game has its own, by the row's seed

    def __init__(self, config: TextEnvironmentConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        model = Hook.of(self.open, Row).model
        self._reset, self._seed = Hook.of(self.reset, model), Hook.of(self.seed, model)
        if config.act_tool and not may_be_tool(config.act_tool):
            raise UserError(f"{config.name}: act_tool: {config.act_tool!r} cannot be a tool's name", "act_tool: act")

    # What an author overrides: plain methods; or `async def`, which does for itself what `guarded` and `own_random` do.

    def open(self, row: Any) -> Any:
        """The environment of a row, and its first observation. Type `row` with a `Row` to have its fields checked.

        A game for several may return a `Step` or an `OthersTurn` in the place of the observation.
        """
        raise NotImplementedError(f"{type(self).__name__} has no open")

    def act(self, environment: E, action: str) -> Any:
        """A `Step`: what the action leads to, with the reward as the library says it. Or an `OthersTurn`."""
        raise NotImplementedError(f"{type(self).__name__} has no act")

    def discard(self, environment: E) -> Any:
        """Let go of what an environment holds, however its episode ended: by its `close`, if it has one."""
        close = getattr(environment, "close", None)
        return close() if callable(close) else None

    # What an author may call.

    async def ask_opponent(self, asked: list[items.Item]) -> str:
        """What the second model says to these items; its failure is one of this rollout."""
        if self.config.opponent is None:
            hint = "opponent: {type: responses_api_models, name: ...}"
            raise RolloutError("row", f"this game needs a second player, and {self.name} has none: configure {hint}")
        async with self.outgoing() as peer:
            reply = await peer.ask_model({"input": asked}, self.config.opponent.name)
        return items.last_assistant_text(reply["output"])

    @contextmanager
    def guarded(self, method: str) -> Iterator[None]:
        """Around the library's code that runs after an `await`: in time, or the rollout fails."""
        seconds = self.config.act_seconds * (12 if method == "open" else 1)
        try:
            with self._blamed(method), CpuLimit(seconds, wall=self.config.act_seconds * 12):
                yield
        except CpuLimitReached as limit:
            raise RolloutError("timeout", f"{type(self).__name__}.{method} took too long: {limit}") from None

    # What turns them into an environment of turns.

    async def reset(self, row: Any) -> tuple[Game[E], Observation]:
        chance = Chance(getattr(row, "seed", None)) if self.own_random else None
        with lent(chance), self.guarded("open"):
            opened = self.open(row)
        if inspect.isawaitable(opened):
            opened = await opened
        environment, first = opened
        game = Game(row, environment, RewardReader(self.config.rewards), chance)
        first = await self._after_others(game, first)
        if isinstance(first, Step):
            game.decided, first = first if first.ends else None, first.observation
        asked = observation_items(self._shown(first))
        system: list[items.Item] = [{"type": "message", "role": "system", "content": self.config.system_prompt}]
        return game, [*(system if self.config.system_prompt else []), *asked]

    async def step(self, action: Action, state: Game[E]) -> Step:
        """Reads the action, hands it to the library, and shows what came of it."""
        state.turns += 1
        call = self._tool_call(action)
        chosen = _argument(call) if call else self._find_action(action.joined_text)
        last = self.config.max_turns is not None and state.turns >= self.config.max_turns
        if chosen:
            step = await self._act(state, chosen, last=last)
        else:
            said = f"No action was found in that reply. {self.config.action.instruction}"
            step = Step(said, reward=state.rewards.add(self.config.missing_action_reward))
        if last and not step.ends:
            step = step._replace(truncated=True, info={**(step.info or {}), "reason": "max_turns"})
        shown = self._shown(step.observation)
        if call is None:
            return step._replace(observation=shown)
        output = {"call_id": str(call.get("call_id") or call.get("id") or ""), "output": _text(shown)}
        return step._replace(observation=None, tool_outputs=(output,))

    async def leave(self, state: Game[E]) -> None:
        left = self.discard(state.environment)
        if inspect.isawaitable(left):
            await left

    # /seed_session, the tool for acting, and /verify: the same episode for agents that do not know /step.

    async def seed(self, row: Any) -> Episode[Game[E]]:
        game, first = await self.reset(row)
        return Episode(game, shown=first)

    def advertise(self, state: Episode[Game[E]]) -> dict[str, Any]:
        tools = {"tools": [self._tool_schema()]} if self.config.act_tool else {}
        return {"observation": state.shown, **tools}

    async def verify(self, rollout: VerifyRequest, state: Episode[Game[E]] | None = None) -> EpisodeScore:
        """What the session's episode has earned; the rollout is replayed where nothing was played in it."""
        if state is not None and state.failure:
            raise state.failure
        if state is None or not state.state.turns:
            return await self.replay(rollout, state)
        return EpisodeScore.of(state.state.rewards.total, state.state.turns, ended=state.done)

    def routes(self) -> list[Route]:
        acting = [Route(f"/{self.config.act_tool}", self._on_act, "Act once")] if self.config.act_tool else []
        return super().routes() + acting

    async def _on_reverify_mode(self, _: Call) -> Answer:
        """A second model may say something else when a rollout is replayed."""
        return json_answer("unsupported" if self.config.opponent else self.reverify_mode)

    async def _on_act(self, call: Call) -> Answer:
        episode = self.find_episode(self.session_id(call))
        asked = items.function_call(self.config.act_tool, call.body.decode(), call_id="")
        async with episode.acting:
            if episode.done:
                return json_answer({"observation": "The episode is over.", "done": True}, OVER)
            step = await self.play(episode, Action(**_row_fields(episode.state.row), response={"output": [asked]}))
        shown = {"observation": step.tool_outputs[0]["output"], "done": step.ends}
        return json_answer(shown, OVER if step.ends else ())

    def _tool_schema(self) -> dict[str, Any]:
        wanted = {"type": "object", "properties": {ACTION: {"type": "string"}}, "required": [ACTION]}
        tool = {"type": "function", "name": self.config.act_tool, "description": "Act once in the environment."}
        return {**tool, "parameters": {**wanted, "additionalProperties": False}, "strict": True}

    def _tool_call(self, action: Action) -> items.Item | None:
        if not self.config.act_tool:
            return None
        return next((one for one in action.function_calls if one.get("name") == self.config.act_tool), None)

    # The library's own code.

    def _find_action(self, text: str) -> str:
        """A pattern of the configuration may take for ever on what the policy wrote; that finds nothing."""
        try:
            with CpuLimit(self.config.act_seconds, wall=self.config.act_seconds * 12):
                return self.config.action.find(text)
        except CpuLimitReached:
            return ""

    async def _act(self, game: Game[E], action: str, *, last: bool) -> Step:
        try:
            step = await self._run_act(game, action)
        except CpuLimitReached as limit:
            return await self._too_costly(game, action, limit)
        except self.bad_action as error:
            return Step(f"That action cannot be: {error}")
        finally:
            game.actions.append(action)
        what = f"{type(self).__name__}.act"
        if not isinstance(step, Step):
            raise RolloutError("resources", f"{what} returned {step!r:.100}: a Step is needed", retryable=False)
        return step._replace(reward=game.rewards.read(step.reward, ends=step.ends or last, what=what))

    async def _run_act(self, game: Game[E], action: str) -> Any:
        if game.decided:
            return game.decided
        seconds = self.config.act_seconds
        with lent(game.chance), self._blamed("act"), CpuLimit(seconds, wall=seconds * 12):
            step = self.act(game.environment, action)
        return await self._after_others(game, await step if inspect.isawaitable(step) else step)

    async def _after_others(self, game: Game[E], step: Any) -> Any:
        """A second model plays the other seats until it is the policy's turn, or over."""
        for _ in range(MAX_OTHER_MOVES):
            if not isinstance(step, OthersTurn):
                return step
            system = {"type": "message", "role": "system", "content": self.config.opponent_prompt}
            said = await self.ask_opponent([system, {"type": "message", "role": "user", "content": step.shown}])
            step = await self._act_for_other(game, said)
        raise RolloutError("resources", f"the others moved {MAX_OTHER_MOVES} times in a row", retryable=False)

    async def _act_for_other(self, game: Game[E], said: str) -> Any:
        try:
            with lent(game.chance), self.guarded("act"):
                step = self.act(game.environment, said)
            return await step if inspect.isawaitable(step) else step
        except self.bad_action as error:
            raise RolloutError("model", f"the second model's action {said[:80]!r} cannot be: {error}") from error

    async def _too_costly(self, game: Game[E], action: str, limit: CpuLimitReached) -> Step:
        """The action's fault where an empty one, after the same ones, costs less: the policy must not escape by it."""
        late = RolloutError("timeout", f"{type(self).__name__}.act took too long: {limit}")
        if limit.waited:
            raise late
        other, _ = await self.reset(game.row)
        try:
            for earlier in (*game.actions, ""):
                with suppress(*self.bad_action):
                    await self._run_act(other, earlier)
        except CpuLimitReached:
            raise late from None
        finally:
            await self.leave(other)
        why = f"the action {action[:80]!r} costs too much: {limit}"
        return Step("That action costs too much.", terminated=True, info={"reason": why, "library_error": "timeout"})

    @contextmanager
    def _blamed(self, method: str) -> Iterator[None]:
        """A library that wants to end the process must not."""
        try:
            yield
        except SystemExit as error:
            what = f"{type(self).__name__}.{method} wanted to end the process: {error!r}"
            raise RolloutError("resources", what, retryable=False) from None

    def _shown(self, observation: Observation) -> Observation:
        if not isinstance(observation, str):
            return observation
        return self.config.observation.replace("{observation}", observation)


def lent(chance: Chance | None) -> AbstractContextManager[None]:
    return chance.lent() if chance else nullcontext()


def _argument(call: items.Item) -> str:
    try:
        arguments = orjson.loads(call.get("arguments") or "{}")
    except orjson.JSONDecodeError:
        return ""
    action = arguments.get(ACTION) if isinstance(arguments, dict) else None
    return action.strip() if isinstance(action, str) else ""


def _text(observation: Observation) -> str:
    return observation if isinstance(observation, str) else write_cut(observation).decode()


def _row_fields(row: Any) -> dict[str, Any]:
    fields: dict[str, Any] = row.model_dump(exclude={"response"})
    return fields
