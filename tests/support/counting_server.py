"""A resources server whose states a test can look at."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from gym.server import ResourcesServer, Row, VerifyRequest, tool

ROW: dict[str, Any] = {"responses_create_params": {"input": "x"}, "start": 3}


@dataclass
class State:
    count: int
    closed: int = 0
    verifying: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)


class StartRow(Row):
    start: int


class CountingServer(ResourcesServer[State]):
    """Keeps every state that it ever made, for the test to look at."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.states: list[State] = []

    async def seed(self, row: StartRow) -> State:
        self.states.append(State(row.start))
        return self.states[-1]

    async def unseeded(self) -> State:
        self.states.append(State(0))
        return self.states[-1]

    async def close(self, state: State) -> None:
        state.closed += 1

    @tool
    async def add(self, number: int, state: State) -> int:
        state.count += number
        return state.count

    @tool
    async def plain(self) -> str:
        return "same for all"

    @tool
    async def broken(self, state: State) -> None:
        raise LookupError("no counter")

    async def verify(self, rollout: VerifyRequest, state: State | None) -> float:
        if state is not None and rollout.last_text == "wait":
            state.verifying.set()
            await state.go_on.wait()
        return float(state.count) if state else -1.0


def counting_server(**fields: Any) -> Any:
    return CountingServer.app(fields, name="counter")


def states(app: Any) -> list[State]:
    found: list[State] = app.server.states
    return found


def asked(text: str = "", **more: Any) -> dict[str, Any]:
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
    return ROW | more | {"response": {"output": output}}
