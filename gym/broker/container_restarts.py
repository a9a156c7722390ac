"""Restarts containers of this stack that ended without a stop. Creates nothing, and touches no other stack.

While a command works on the stack, and once the stack is going down, it leaves everything as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Final

import orjson

from gym import labels
from gym.broker.providers.docker.engine_client import EngineClient, EngineRefused
from gym.broker.restart_rules import (
    GONE,
    ContainerEvents,
    RestartHistory,
    StackContainer,
    find_ended,
    may_start,
    why_ended,
)
from gym.errors import GymError
from gym.files import read_document, write_atomically
from gym.wire.wanted import Beat, read_wanted, read_work

PROJECT: Final = "com.docker.compose.project"
SERVICE: Final = "com.docker.compose.service"
NUMBER: Final = "com.docker.compose.container-number"
EVENTS: Final = ("die", "kill", "stop", *sorted(GONE))
NOTES: Final = "ended.json"
LOOK_SECONDS: Final = 5.0  # between two looks without an event
SOON_SECONDS: Final = 0.5  # while a command works on the stack, or after an error
AGAIN_SECONDS: Final = 1.0
log = logging.getLogger("gym.broker")


class ContainerRestarter:
    """`folder` says what the stack is to be, `state` is where notes are kept, `tell` hears of each start."""

    def __init__(self, project: str, folder: Path, state: Path, tell: Callable[..., None]) -> None:
        self._project = project
        self._folder = folder
        self._path = state / NOTES
        self._tell = tell
        self._notes = _read_notes(self._path)
        self._beat = Beat()
        self._trials = RestartHistory()
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Runs until cancelled; an error is logged and retried."""
        while True:
            try:
                await self._run()
            except Exception:
                log.exception("restarts pause for a moment")
            await asyncio.sleep(AGAIN_SECONDS)

    async def _run(self) -> None:
        engine = EngineClient()
        try:
            await _opened(engine)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen(engine))
                group.create_task(self._keep(engine))
        finally:
            await engine.aclose()

    async def _listen(self, engine: EngineClient) -> None:
        filters = {"type": ["container"], "event": list(EVENTS), "label": [f"{PROJECT}={self._project}"]}
        while True:
            query = {"filters": orjson.dumps(filters).decode(), "since": self._notes.since or None}
            try:
                async with aclosing(engine.lines("GET", "/events", query, doing="tell what happens")) as events:
                    async for event in events:
                        self._hear(event)
            except (GymError, ValueError) as error:
                log.debug("the engine's events stopped: %s", error)
            await asyncio.sleep(AGAIN_SECONDS)

    def _hear(self, event: dict[str, Any]) -> None:
        self._notes = self._notes.heard(event, commanded=self._is_commanded())
        try:
            write_atomically(self._path, self._notes.model_dump_json())
        except OSError as error:
            log.warning("the state of ended containers could not be written: %s", error)
        self._news.set()

    async def _keep(self, engine: EngineClient) -> None:
        while True:
            self._news.clear()
            try:
                pause = await self._look(engine)
            except (GymError, ValueError, KeyError, TypeError) as error:
                log.warning("an ended container could not be restarted: %s", error)
                pause = SOON_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._news.wait()

    async def _look(self, engine: EngineClient) -> float:
        """Seconds until the next look is worth while, if no event comes before."""
        wanted = read_wanted(self._folder)
        if wanted is None or wanted.down or wanted.project != self._project or self._is_commanded():
            self._trials.see((), 0.0)
            return SOON_SECONDS if wanted is not None and not wanted.down else LOOK_SECONDS
        ended = find_ended(await self._members(engine), wanted, self._notes)
        now = asyncio.get_running_loop().time()
        self._trials.see(ended, now)
        waits = {one: self._trials.due_in(one, self._notes, now) for one in ended}
        for one, seconds in waits.items():
            if seconds <= 0:
                await self._start(engine, one)
        return min([LOOK_SECONDS, *(seconds for seconds in waits.values() if seconds > 0)])

    async def _start(self, engine: EngineClient, one: StackContainer) -> None:
        path = f"/containers/{one.id}"
        try:
            facts = await engine.call("GET", f"{path}/json", doing="show a container")
            if not may_start(one, facts, self._notes) or self._is_commanded():
                return
            self._trials.started(one, asyncio.get_running_loop().time())
            await engine.call("POST", f"{path}/start", doing=f"start {one.name}")
        except EngineRefused as error:
            if error.status != 404:
                log.warning("%s ended and does not start: %s", one.name, error)
            return
        log.warning("%s is restarted: %s", one.name, why_ended(facts))
        self._tell("start_again", container=one.name, why=why_ended(facts))

    async def _members(self, engine: EngineClient) -> list[StackContainer]:
        filters = orjson.dumps({"label": [f"{PROJECT}={self._project}"]}).decode()
        listed = await engine.call("GET", "/containers/json", {"all": True, "filters": filters}, doing="list the stack")
        return [_member(one) for one in listed if labels.SANDBOX not in (one.get("Labels") or {})]

    def _is_commanded(self) -> bool:
        return self._beat.hears(read_work(self._folder), asyncio.get_running_loop().time())


def _member(listed: dict[str, Any]) -> StackContainer:
    found = listed.get("Labels") or {}
    number = str(found.get(NUMBER, ""))
    return StackContainer(
        id=listed["Id"],
        name=(listed.get("Names") or [""])[0].lstrip("/"),
        service=found.get(SERVICE, ""),
        instance=found.get(labels.INSTANCE, ""),
        number=int(number) if number.isascii() and number.isdigit() else 0,
        state=listed.get("State", ""),
    )


async def _opened(engine: EngineClient) -> None:
    while True:
        try:
            await engine.open()
            return
        except GymError as error:
            log.warning("no container is restarted until the engine answers: %s", error)
            await asyncio.sleep(AGAIN_SECONDS)


def _read_notes(path: Path) -> ContainerEvents:
    return read_document(ContainerEvents, path) or ContainerEvents()
