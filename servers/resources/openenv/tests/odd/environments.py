"""Environments that go wrong in every way we know, and the lock, in one process: /lock, /odd, /small, /tools."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastmcp import FastMCP
from openenv.core.env_server import (
    Action,
    CallToolAction,
    CallToolObservation,
    Environment,
    MCPEnvironment,
    Observation,
    State,
    create_fastapi_app,
)
from pydantic import Field, field_validator

sys.path.insert(0, str(Path(__file__).parents[2] / "lock"))
from server import app as lock  # noqa: E402


class Word(Action):
    word: str = Field(max_length=40)
    extra: int = 0

    @field_validator("word")
    @classmethod
    def known(cls, word: str) -> str:
        if word == "forbidden":
            raise ValueError("that word is forbidden")
        return word


class Anything(Observation):
    reward: Any = None
    done: Any = False
    text: str = ""


class OfValues(Observation):
    word: int = 0


class Strict(Observation):
    text: str = ""

    @field_validator("text")
    @classmethod
    def refused(cls, text: str) -> str:
        raise ValueError(text)


class Odd(Environment[Word, Observation, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        self._said: list[str] = []
        self._begun = False

    def reset(
        self, seed: int | None = None, paid: Any = None, over: bool = False, text: str = "Say a word.", **other: Any
    ) -> Observation:
        self._said, self._begun = [], True
        if text == "raise":
            raise RuntimeError("no such text")
        if text == "raise once" and not FAILED.is_set():
            FAILED.set()
            raise RuntimeError("no power")
        return Anything(text=text, reward=paid, done=over)

    def step(self, action: Word, timeout_s: float | None = None, **other: Any) -> Observation:
        self._said.append(action.word)
        match action.word.split(":"):
            case ["raise", what]:
                raise RuntimeError(what)
            case ["exit"]:
                raise SystemExit(3)
            case ["own"]:
                return OfValues(word="no number")
            case ["later"] if self._begun:
                return Strict(text="refused by a validator of its own")
            case ["mute"]:
                return Anything(reward=object())
            case ["done", what]:
                return Anything(done=what, reward=0.0)
            case ["hang"]:
                HANGING.wait(600)
            case ["pay", what]:
                return Anything(text=what, reward=PAID[what])
            case ["end", what]:
                return Anything(text=what, reward=PAID[what], done=True)
        return Anything(text=f"{action.extra} " + " ".join(self._said), reward=0.0)

    @property
    def state(self) -> State:
        return self._state


class Small(Odd):
    SUPPORTS_CONCURRENT_SESSIONS = False


class Tools(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        server = FastMCP("tools")
        self.count = 0

        @server.tool
        def add(number: int) -> str:
            """Add a number to the sum."""
            self.count += number
            return f"The sum is {self.count}."

        @server.tool
        def fail(why: str) -> str:
            raise ValueError(why)

        super().__init__(server)
        self._state = State()

    def reset(self, seed: int | None = None, **other: Any) -> Observation:
        self.count = 0
        return Observation()

    def _step_impl(self, action: Action, timeout_s: float | None = None, **other: Any) -> Observation:
        return Observation()

    async def step_async(self, action: Action, timeout_s: float | None = None, **other: Any) -> Observation:
        observation = await super().step_async(action, timeout_s, **other)
        if isinstance(action, CallToolAction):
            observation.reward, observation.done = float(self.count == 7), self.count == 7
        return observation

    @property
    def state(self) -> State:
        return self._state


HANGING = threading.Event()
FAILED = threading.Event()
PAID = {
    "one": 1.0,
    "half": 0.5,
    "true": True,
    "nothing": None,
    "nan": float("nan"),
    "infinity": float("inf"),
    "text": "1",
}

app = FastAPI()
app.mount("/lock", lock)
app.mount("/odd", create_fastapi_app(Odd, Word, Anything, max_concurrent_envs=64))
app.mount("/small", create_fastapi_app(Small, Word, Anything, max_concurrent_envs=1))
app.mount("/tools", create_fastapi_app(Tools, CallToolAction, CallToolObservation, max_concurrent_envs=64))
