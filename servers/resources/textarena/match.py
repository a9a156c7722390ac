"""One game of the library, as the policy in its seat sees it."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

import textarena

from gym.server.adapters.text_environment import OthersTurn
from gym.server.gymnasium import Step


class Match:
    """`move` is of the player whose turn it is; `result` is for the policy's seat."""

    def __init__(self, game: textarena.Env, seat: int) -> None:
        self.game, self.seat = game, seat
        self.done = False
        self._shown: dict[int, str] = {}

    def move(self, action: str) -> None:
        self.done, _ = self.game.step(action)

    def look(self) -> tuple[str, str]:
        """What the player whose turn it is sees: all of it, and what of it is new."""
        player, seen = self.game.get_observation()
        before = self._shown.get(player, "")
        text = seen if isinstance(seen, str) else before + self._messages(seen)
        self._shown[player] = text
        return text, text[len(before) :].lstrip("\n") if text.startswith(before) else text

    def result(self) -> Step | OthersTurn:
        if not self.done:
            seen, news = self.look()
            return Step(news) if self.game.state.current_player_id == self.seat else OthersTurn(seen)
        rewards, facts = self.game.close()
        own: Mapping[str, Any] = facts.get(self.seat) or {}
        info = {key: own[key] for key in ("reason", "turn_count", "invalid_move") if key in own}
        reward = (rewards or {}).get(self.seat)
        if isinstance(reward, str) and own.get("invalid_move"):  # some games swap the reward and its reason
            reward, info["reason"] = 0.0, reward
        shown = {str(player): value for player, value in (rewards or {}).items() if isinstance(value, Real)}
        return Step(str(info.get("reason") or "The game is over."), reward, True, info={**info, "rewards": shown})

    def _messages(self, seen: Any) -> str:
        """Of a `-raw` environment, which leaves the words to its caller."""
        roles = self.game.state.role_mapping
        return "".join(f"\n[{roles.get(sender, f'Player {sender}')}] {message}" for sender, message, *_ in seen or ())
