"""The lock as an OpenEnv environment: nothing here knows of Compose Gym. uvicorn server:app"""

from __future__ import annotations

from typing import Annotated, Any

from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from pydantic import Field
from rules import DIGITS, PLACES, TRIES, compare, secret_of

Digit = Annotated[int, Field(ge=1, le=DIGITS)]


class Try(Action):
    digits: list[Digit] = Field(min_length=PLACES, max_length=PLACES, description="What the lock is turned to")


class Hints(Observation):
    in_place: int = 0
    elsewhere: int = 0
    tries_left: int = 0
    text: str = ""


class Lock(Environment[Try, Hints, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        self._secret: list[int] = []
        self._left = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, tries: int = TRIES, **other: Any) -> Hints:
        if not isinstance(seed, int | None) or not isinstance(tries, int) or tries < 1:
            raise ValueError(f"seed is a whole number, and tries is one from 1 on: {seed!r:.80}, {tries!r:.80}")
        self._secret, self._left = secret_of(seed or 0), tries
        self._state = State(episode_id=episode_id)
        said = f"The lock has {PLACES} digits, each from 1 to {DIGITS}. You have {tries} tries."
        return Hints(tries_left=tries, text=said, reward=0.0)

    def step(self, action: Try, timeout_s: float | None = None, **other: Any) -> Hints:
        self._left -= 1
        self._state.step_count += 1
        right, elsewhere = compare(self._secret, action.digits)
        if right == PLACES:
            return Hints(in_place=right, tries_left=self._left, text="It opens.", reward=1.0, done=True)
        said = f"{right} in place, {elsewhere} elsewhere. {self._left} tries left."
        facts = {"in_place": right, "elsewhere": elsewhere, "tries_left": self._left}
        return Hints(**facts, text=said, reward=0.0, done=self._left < 1)

    @property
    def state(self) -> State:
        return self._state


app = create_fastapi_app(Lock, Try, Hints, max_concurrent_envs=1024, env_name="lock")
