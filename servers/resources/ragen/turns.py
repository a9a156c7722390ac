"""One reply of the policy: its actions, taken one after another as RAGEN's own manager takes them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from loading import RagenEnvironment

from gym.server.adapters.rewards import check_reward
from gym.server.gymnasium import Step
from gym.wire.failures import RolloutError

ANSWER = "(observation, reward, done, info)"


@dataclass(slots=True)
class RagenGame:
    environment: Any
    rules: RagenEnvironment
    taken: int = 0
    done: bool = False
    info: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def begin(
        cls, kind: Any, config_class: Any, rules: RagenEnvironment, given: Mapping[str, Any], *, seed: Any, mode: str
    ) -> tuple[Self, str]:
        settings = make_config(config_class, rules.config, given)
        environment = kind(settings) if config_class else kind()
        for name, value in rules.attributes.items():
            setattr(environment, name, value)
        modes = {"mode": mode} if takes_mode(environment.reset) else {}
        first = environment.reset(seed=seed, **modes)
        game = cls(environment, rules)
        return game, game.show(first[0] if isinstance(first, tuple) else first)

    @property
    def left(self) -> int | None:
        return None if self.rules.max_actions is None else self.rules.max_actions - self.taken

    def find(self, words: list[str]) -> list[Any]:
        """The actions that the words are; a reset may have given them other names."""
        if self.lookup is None:
            return words
        known = {str(name).lower(): action for action, name in self.lookup.items()}
        return [known[word.lower()] for word in words if word.lower() in known]

    @property
    def lookup(self) -> Mapping[Any, Any] | None:
        found: Mapping[Any, Any] | None = getattr(getattr(self.environment, "config", None), "action_lookup", None)
        return found

    @property
    def plainest(self) -> Any:
        """What an empty reply is taken for, when it has to be found out whose fault a hang is."""
        return next(iter(self.lookup), "") if self.lookup else ""

    def show(self, observation: Any) -> str:
        """What it draws, as RAGEN shows it; what `step` has returned, where it draws nothing."""
        drawn = self.environment.render() if hasattr(self.environment, "render") else None
        shown = observation if drawn is None else drawn
        if not isinstance(shown, str):
            what = f"{type(self.environment).__name__} shows {type(shown).__name__}: a text is needed"
            raise RolloutError("resources", f"{what}. Is there a render_mode: text in its config?", retryable=False)
        return shown

    def take(self, action: Any) -> tuple[Any, float]:
        answer = self.environment.step(action)
        what = f"{type(self.environment).__name__}.step"
        if not isinstance(answer, tuple) or len(answer) != 4 or not isinstance(answer[3], Mapping):
            raise RolloutError("resources", f"{what} returned {answer!r:.100}: {ANSWER} is needed", retryable=False)
        observation, reward, done, info = answer
        self.taken, self.done = self.taken + 1, bool(done)
        self.info.update(plain(info))
        return observation, check_reward(reward, what)

    def close(self) -> None:
        if hasattr(self.environment, "close"):
            self.environment.close()


def make_config(kind: Any, *given: Mapping[str, Any]) -> Any:
    """A new one for each game: environments write into theirs."""
    settings = {name: value for one in given for name, value in one.items()}
    if kind is None:
        if settings:
            raise RolloutError("row", f"config: this environment takes none, and the row has {', '.join(settings)}")
        return None
    try:
        return kind(**settings)
    except (TypeError, ValueError) as error:
        raise RolloutError("row", f"config: {kind.__name__} cannot be {settings}: {error}") from None


def take_turn(game: RagenGame, written: str, *, separator: str, penalty: float) -> Step:
    """Up to the end of the game, or of the actions that the reply or the game may have."""
    words = [one.strip() for one in (written.split(separator) if separator else [written])]
    words = [one for one in words if one][: game.rules.max_actions_per_turn]
    actions = game.find(words) if written else [game.plainest]
    reward = 0.0 if actions and len(actions) == len(words) else penalty
    observation: Any = ""
    said = (
        ""
        if actions
        else f"None of that is an action. There are: {', '.join(map(str, (game.lookup or {}).values()))}.\n"
    )
    for action in actions[: game.left]:
        try:
            observation, value = game.take(action)
        except Exception as error:
            if not is_bad_action(error, game.rules.bad_action):
                raise
            said = f"That action cannot be: {error}\n"
            break
        reward += value
        if game.done:
            break
    return finish_turn(game, f"{said}{game.show(observation)}", reward)


def finish_turn(game: RagenGame, shown: str, reward: float) -> Step:
    info = dict(game.info)
    if game.done:
        return Step(shown, reward, terminated=True, info=info)
    if game.left is None:
        return Step(shown, reward, info=info)
    if game.left <= 0:
        return Step(shown, reward, truncated=True, info={**info, "reason": "max_actions"})
    return Step(f"{shown}\nActions left: {game.left}", reward, info=info)


def is_bad_action(error: Exception, names: list[str]) -> bool:
    return any(one.__name__ in names for one in type(error).__mro__)


def takes_mode(reset: Any) -> bool:
    parameters = inspect.signature(reset).parameters.values()
    return any(one.name == "mode" or one.kind is one.VAR_KEYWORD for one in parameters)


def plain(info: Mapping[str, Any]) -> dict[str, Any]:
    """What is one number, word or truth, numpy's among them; masks and boards are left out."""
    values = {str(name): value.item() if getattr(value, "ndim", None) == 0 else value for name, value in info.items()}
    return {name: value for name, value in values.items() if isinstance(value, bool | int | float | str)}
