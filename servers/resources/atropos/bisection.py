"""A small environment of Atropos' base class: a number is guessed by halves. It needs no data and no network."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig, ScoredDataItem
from atroposlib.utils.tokenize_for_trainer import tokenize_for_trainer
from draws import HIGHEST, draw_game
from pydantic import Field

TASK = """I think of a whole number from 1 to {highest}. You have {guesses} guesses; after each I say whether my \
number is higher or lower. End each reply with your guess between <guess> and </guess>."""
GUESS = re.compile(r"<guess>\s*(\d{1,9})\s*</guess>", re.ASCII)


class BisectionConfig(BaseEnvConfig):  # type: ignore[misc]  # the library has no types
    difficulty: str = Field(default="medium", pattern=f"^({'|'.join(HIGHEST)})$")
    seed: int = 0


class Bisection(BaseEnv):  # type: ignore[misc]
    """1 for the number within its guesses, else 0."""

    name = "bisection"
    env_config_cls = BisectionConfig

    @classmethod
    def config_init(cls) -> tuple[BisectionConfig, list[APIServerConfig]]:
        return BisectionConfig(), [APIServerConfig(base_url="http://127.0.0.1:9/v1", api_key="x")]

    async def setup(self) -> None:
        self.random = Random(self.config.seed)

    async def get_next_item(self) -> dict[str, Any]:
        return draw_game(self.random, self.config.difficulty)

    async def evaluate(self, *_: Any, **__: Any) -> None:
        return None

    async def collect_trajectory(self, item: dict[str, Any]) -> tuple[ScoredDataItem, list[Any]]:
        check_game(item)
        messages = [{"role": "user", "content": TASK.format(**item)}]
        found = False
        for _ in range(item["guesses"]):
            reply = await self.server.chat_completion(messages=messages, max_tokens=self.config.max_token_length)
            said = reply.choices[0].message.content or ""
            guess = GUESS.findall(said)[-1:]
            found = bool(guess) and int(guess[0]) == item["secret"]
            messages += [
                {"role": "assistant", "content": said},
                {"role": "user", "content": hint(guess, item["secret"])},
            ]
            if found:
                break
        made = tokenize_for_trainer(self.tokenizer, messages[:-1])
        return ScoredDataItem(tokens=made["tokens"], masks=made["masks"], scores=float(found), messages=messages), []


def check_game(item: dict[str, Any]) -> None:
    for name in ("secret", "highest", "guesses"):
        if type(item.get(name)) is not int or not 1 <= item[name] < 10**9:
            raise ValueError(f"{name}: {item.get(name)!r} is not a whole number from 1")


def hint(guess: list[str], secret: int) -> str:
    if not guess:
        return "That is not a guess. Write it between <guess> and </guess>."
    return "My number is higher." if int(guess[0]) < secret else "My number is lower."
