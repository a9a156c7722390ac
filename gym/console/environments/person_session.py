"""A person's try at a row in a stack that runs: kept by the console for a while, few at once.

Its calls go the way of an agent's: to one replica, with its cookies, under one deadline, each sent once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any, Final

import orjson

from gym.console.pages.shell import NotThere
from gym.errors import UserError
from gym.http.pool import HttpClient
from gym.server.replicas import Peers
from gym.server.rollout_client import RolloutClient
from gym.server.tools import may_be_tool
from gym.wire import items
from gym.wire.failures import RolloutError, error_from_reply
from gym.wire.json_text import read_json, write_any_json
from gym.wire.person_play import BEGINS_WITH_STEPS, NOT_ONE, PersonCall, PersonPlay, make_call

MAX_SESSIONS: Final = 16
SESSION_SECONDS: Final = 1800.0
TOOLS_SECONDS: Final = 10.0
OPEN, OVER, FAILED, CLOSED = "open", "over", "failed", "closed"
Json = dict[str, Any]


class PersonSession:
    def __init__(self, id: str, server: str, row: Json, client: RolloutClient) -> None:
        self.id = id
        self.state = OPEN
        self.used = 0  # when, in the order of all uses
        self._server = server
        self._play = PersonPlay(row)
        self._client = client
        self._failure: Json | None = None
        self._lock = asyncio.Lock()

    async def begin(self, own_tools: list[Json]) -> None:
        """`own_tools`: those of the server, for a row that lists none."""
        async with self._lock:
            try:
                await self._seed()
            except RolloutError as error:
                await self._fail(error)
                return
            if self._play.lacks_tools:
                self._play.tools = own_tools

    async def take(self, turn: items.Item) -> None:
        """One turn of the person; what only the infrastructure can cause ends the try as a failure."""
        async with self._lock:
            if self.state != OPEN:
                raise UserError(f"this try is {self.state}: begin another one")
            try:
                await self._send(self._play.take_turn(turn))
            except RolloutError as error:
                await self._fail(error)
            if self._play.verdict is not None:
                self.state = OVER
                await self._leave()

    async def close(self) -> None:
        async with self._lock:
            if self.state == OPEN:
                self.state = CLOSED
                await self._leave()

    def call(self, name: str, arguments: Mapping[str, Any]) -> items.Item:
        if not self._play.steps and not may_be_tool(name):  # a row may list any name, /verify's too
            raise UserError(f"There is no tool {name[:200]!r}: the contract uses that name, or no route has it.")
        return make_call(name, arguments, self._play.tools)

    def view(self) -> Json:
        play, verdict = self._play, self._play.verdict
        return {
            "id": self.id,
            "server": self._server,
            "state": self.state,
            "steps": play.steps,
            "items": [*play.prompt, *play.output],
            "asked": len(play.prompt),
            "tools": play.tools,
            "instructions": play.row["responses_create_params"].get("instructions") or "",
            "rewards": play.rewards,
            "verdict": None if verdict is None else _verdict_view(verdict, play.row),
            "failure": self._failure,
        }

    async def _seed(self) -> None:
        """An environment of steps knows /reset; every other seeds a session."""
        body = write_any_json(self._play.row)
        reply = await self._client.send(self._server, BEGINS_WITH_STEPS, body, kind="resources", hop="seed")
        if reply.status in NOT_ONE:
            self._play.begin(await self._client.seed(body), steps=False)
            return
        if reply.status >= 400:
            raise error_from_reply(reply.status, reply.body, server=self._server, kind="resources")
        self._client.session_open, self._client.close_path = True, "/close"
        self._play.begin(self._read_object(reply.body, BEGINS_WITH_STEPS), steps=True)

    async def _send(self, call: PersonCall) -> None:
        play, client = self._play, self._client
        if call.is_tool:
            _, text = await client.call_tool(call.path[1:], write_any_json(call.body))
            play.take_output(text)
            if client.episode_over:
                await self._send(play.ask_verdict())
        elif play.steps:
            body = write_any_json(call.body)
            reply = await client.post(self._server, call.path, body, kind="resources", hop="tools")
            play.take_step(self._read_object(reply.body, call.path))
        else:
            row = write_any_json(play.row)
            play.take_verdict(self._read_object(await client.verify(row, play.row, call.body["response"]), call.path))

    def _read_object(self, body: bytes, path: str) -> Json:
        try:
            found = read_json(body)
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            raise RolloutError("resources", f"{path} answered with something else than an object", server=self._server)
        return found

    async def _fail(self, error: RolloutError) -> None:
        self.state, self._failure = FAILED, error.to_dict()
        await self._leave()

    async def _leave(self) -> None:
        await self._client.leave()
        await self._client.__aexit__(None, None, None)


class PersonSessions:
    """Few at once: the one that was not used for longest makes room."""

    def __init__(
        self, peers: Peers, http: HttpClient, *, max_sessions: int = MAX_SESSIONS, seconds: float = SESSION_SECONDS
    ) -> None:
        self._peers = peers
        self._http = http
        self._max_sessions = max_sessions
        self._seconds = seconds
        self._sessions: dict[str, PersonSession] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._uses = 0

    async def begin(self, server: str, row: Json) -> PersonSession:
        """A session of this resources server, for this row."""
        id = secrets.token_urlsafe(9)
        client = RolloutClient(self._http, self._peers, seconds=self._seconds, id=f"try-{id}", resources_server=server)
        session = PersonSession(id, server, row, client)
        self._keep(session)
        await session.begin(await self.tools(server))
        return session

    def find(self, id: str) -> PersonSession:
        session = self._sessions.get(id)
        if session is None:
            minutes = self._seconds / 60
            what = f"A try is kept for {minutes:g} minutes, and {self._max_sessions} at once"
            raise NotThere(f"This try is not here any more: begin another one. {what}, until the console ends.")
        self._use(session)
        return session

    async def tools(self, server: str) -> list[Json]:
        """As any replica tells; none where it has none, or does not answer."""
        for replica in sorted(await self._peers.replicas(server), key=lambda one: not one.healthy):
            try:
                reply = await self._http.request("GET", f"{replica.url}/tools", timeout=TOOLS_SECONDS)
                found = read_json(reply.body) if reply.status == 200 else None
            except (OSError, orjson.JSONDecodeError):
                continue
            return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        return []

    async def aclose(self) -> None:
        for id in list(self._sessions):
            self._drop(id)
        if self._ending:
            await asyncio.wait(self._ending)

    def _keep(self, session: PersonSession) -> None:
        while len(self._sessions) >= self._max_sessions:
            self._drop(min(self._sessions.values(), key=lambda one: (one.state == OPEN, one.used)).id)
        self._sessions[session.id] = session
        self._use(session)
        self._timers[session.id] = asyncio.get_running_loop().call_later(self._seconds, self._drop, session.id)

    def _use(self, session: PersonSession) -> None:
        self._uses += 1
        session.used = self._uses

    def _drop(self, id: str) -> None:
        session = self._sessions.pop(id)
        self._timers.pop(id).cancel()
        task = asyncio.get_running_loop().create_task(session.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _verdict_view(verdict: Mapping[str, Any], row: Mapping[str, Any]) -> Json:
    """The reward as the server gave it, and what else it says beside what the row had."""
    said = {"reward", "reason", "response", *row}
    more = {name: value for name, value in verdict.items() if name not in said}
    return {"reward": verdict["reward"], "reason": verdict.get("reason") or "", "more": more}
