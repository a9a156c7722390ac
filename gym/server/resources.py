"""`ResourcesServer`: tools, the state of each rollout, the verifier. An author writes `seed`, `@tool`s and `verify`."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from urllib.parse import quote

import orjson
from pydantic import BaseModel, Field
from pydantic_core import from_json

from gym.errors import Problem, UserError
from gym.http.pool import HttpClient
from gym.labels import HEADER_CALL, HEADER_SEEDLESS, HEADER_SHARED
from gym.server import mcp
from gym.server.asgi import CURRENT, Answer, Call
from gym.server.author_hook import Hook
from gym.server.author_shape import refuse_bad_methods
from gym.server.base import Route, Server, json_answer
from gym.server.config import ServerConfig, Settings, addresses
from gym.server.errors import error_text
from gym.server.replicas import Peers
from gym.server.rollout_client import RolloutClient
from gym.server.score import make_writable, reward_fields
from gym.server.session import Session, SessionStore
from gym.server.shared_sessions import SharedSessions
from gym.server.state_types import state_adapter
from gym.server.tolerated import Tolerated
from gym.server.tool_routes import tool_routes
from gym.server.tools import Tool, collect_tools, result_to_json
from gym.server.workers import AnswerTooCostly
from gym.wire import metrics
from gym.wire.deep_values import UNWRITABLE
from gym.wire.failures import RolloutError
from gym.wire.pass_rates import pass_and_majority
from gym.wire.rows import ReverifyMode, Row, VerifyRequest, VerifyResponse
from gym.wire.splice import splice_pieces

if TYPE_CHECKING:
    from fastapi import FastAPI

S = TypeVar("S")
SWEEP_SECONDS = 30.0
OUTGOING_SECONDS = 600.0
_CALL = HEADER_CALL.encode()
log = logging.getLogger("gym.server")


class ResourcesConfig(ServerConfig):
    """Subclass it, and annotate `config: MyConfig` in the server, to add fields."""

    expose_tools_over_mcp: bool = False
    """Offer its tools over MCP too, at `/mcp`."""
    session_ttl_seconds: float = 3600.0
    """How long the state of a rollout is kept that is neither verified nor closed."""
    state: str = Field("", repr=False)
    """A Redis or Valkey that keeps the state of rollouts, so that any replica serves any of them: `redis://HOST:6379`."""


class ResourcesServer(Server, Generic[S]):
    """Subclass it; `S` is the type of one rollout's state."""

    role: ClassVar[str] = "resources"
    server_type: ClassVar[str] = "resources_servers"
    reverify_mode: ClassVar[ReverifyMode] = "unknown"  # "stateless" when verify needs nothing but its request
    reward_floor: ClassVar[float] = 0.0  # what even a worthless answer gets
    reward_floor_reason: ClassVar[str] = ""  # why, where that is not 0
    constant_floor: ClassVar[float] = 0.0  # what always the same answer may earn a row, on average
    constant_floor_reason: ClassVar[str] = ""
    answer: ClassVar[str] = ""  # the field of a reply that `aggregate` counts majorities over
    shares_state: ClassVar[bool] = True  # False where it keeps sessions in ways of its own, so that `state:` is refused
    tolerates: ClassVar[tuple[Tolerated, ...]] = ()  # harmless changes that cost, near misses that pay, and why
    config: ResourcesConfig

    def __init__(self, config: ResourcesConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.config = config
        self.tools = collect_tools(self)
        self.sessions: SessionStore[Any] = SessionStore(ttl_seconds=config.session_ttl_seconds)
        self.mcp_key = secrets.token_bytes(32)  # signs this process's sessions for MCP clients
        self._cookie = f"{type(self).__name__}___{quote(config.name, safe='')}"
        self._seed = Hook.of(self.seed, Row)
        self._verify = Hook.of(self.verify, VerifyRequest)
        self._stateful = type(self).seed is not ResourcesServer.seed
        opens = self._stateful or config.expose_tools_over_mcp
        self._seedless = () if opens else ((HEADER_SEEDLESS.encode(), b"1"),)
        self._shared_sessions = self._share_state() if config.state else None
        self._sweeper: asyncio.Task[None] | None = None
        self._http = HttpClient()
        self._peers = Peers(settings.discovery, addresses(settings.document), self._http)

    # What an author overrides.

    async def seed(self, row: Any, *args: Any, **kwargs: Any) -> S | None:
        """The state of a new rollout. Type `row` with a `Row` subclass to have its fields checked.

        With a parameter called `state` it is also given what a session that is seeded again holds already.
        """
        return None

    async def verify(self, rollout: Any, *args: Any, **kwargs: Any) -> float | VerifyResponse | Mapping[str, Any]:
        """The reward, alone or in a `Score` with more fields. `True` is 1 and `False` is 0.

        Type `rollout` with a `VerifyRequest` subclass; a parameter called `state` is given the session's.
        """
        raise NotImplementedError(f"{type(self).__name__} has no verify")

    async def check_row(self, row: Any) -> Iterable[Problem]:
        """What a row wants of this server's own data (tables, databases, files) and does not find there.

        `row` is what `verify` is given, with an empty response. `gym data validate` asks for every row, after `start`
        and outside of any rollout. Say in `hint` where was looked, and which setting names another place.
        """
        return ()

    async def unseeded(self) -> S | None:
        """The state for a tool call that comes without any session. Refused, unless you say what it should be."""
        raise RolloutError("row", "this tool needs a session: POST /seed_session first, and send its cookie along")

    def advertise(self, state: Any) -> dict[str, Any]:
        """What `/seed_session` answers about a new session, beside its cookie."""
        return {}

    async def close(self, state: S) -> None:
        """Let go of what a state holds: after verify, at close_session, at its TTL and when the server stops."""

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        """Metrics over all verify replies of an agent, added to `agent_metrics`: pass@k, and majorities of `answer`."""
        answer = self.answer if isinstance(self.answer, str) else ""  # a tool, or a method, may be called so
        return dict(pass_and_majority(replies, answer=answer))

    @property
    def row_model(self) -> type[BaseModel]:
        """What a row is checked by when a session begins."""
        return self._seed.model

    # What an author may call.

    def outgoing(self, *, model_server: str = "", seconds: float = OUTGOING_SECONDS) -> RolloutClient:
        """A client for other instances of the stack, under the id and within the time of the call being served."""
        call = CURRENT.get()
        left = seconds if call is None else call.seconds_left(seconds)
        return RolloutClient(
            self._http, self._peers, seconds=left, id=call.rollout_id if call else "", model_server=model_server
        )

    # What the contract asks for.

    def routes(self) -> list[Route]:
        own = [
            Route("/seed_session", self._on_seed, "Open a session for a row", self._seed.model),
            Route("/verify", self._on_verify, "Score a finished rollout", self._verify.model, VerifyResponse, raw=True),
            Route("/close_session", self._on_close, "Drop the session"),
            Route("/aggregate_metrics", self._on_aggregate, "Metrics over verify replies"),
            Route("/reverify_mode", self._on_reverify_mode, "Whether /verify may be repeated", method="GET"),
        ]
        return own + tool_routes(self, self.session_id, self._set_cookie)

    def extend(self, app: FastAPI) -> None:
        if self.config.expose_tools_over_mcp:
            mcp.mount(app, self)

    @property
    def has_own_routes(self) -> bool:
        return self.config.expose_tools_over_mcp or type(self).extend is not ResourcesServer.extend

    def _calls_made(self) -> Mapping[str, int]:
        return self._peers.asked

    def health(self) -> dict[str, Any]:
        return {"sessions": len(self.sessions), "stateful": self._stateful}

    def _share_state(self) -> SharedSessions:
        kind = type(self)
        if not self.shares_state:
            what = f"{self.name}: state: {kind.__name__} keeps its sessions in its own process"
            raise UserError(what, "leave `state:` out of its configuration")
        config = self.config
        return SharedSessions(config.state, self.name, state_adapter(kind, self.seed), config.session_ttl_seconds)

    def check_methods(self) -> None:
        super().check_methods()
        refuse_bad_methods(self, {"seed": ("row", "state="), "verify": ("rollout", "state=")})

    async def begin(self) -> None:
        if self._shared_sessions is not None:
            self.own(self._shared_sessions)
            self.mcp_key = await self._shared_sessions.begin()
        self._sweeper = asyncio.create_task(self._sweep())

    async def end(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for session in self.sessions.take_all():
            await self._release(session)
        await self._http.aclose()

    async def call_tool(self, tool: Tool, body: bytes, session_id: str) -> tuple[Any, str]:
        """The tool's result, and the id of the session it ran in ("" when it needs none)."""
        if self._shared_sessions is not None and tool.wants_state:
            return await self._call_shared(self._shared_sessions, tool, body, session_id)
        if not tool.wants_state:
            self.sessions.find(session_id)  # a session in use stays young
            return await tool.call(body, None), session_id
        session = await self._session_for_tool(session_id)
        return await tool.call(body, session.state), session.id

    async def _call_shared(self, shared: SharedSessions, tool: Tool, body: bytes, session_id: str) -> tuple[Any, str]:
        async def work(state: Any) -> bytes:
            return tool.write(await tool.call(body, state))

        session_id = session_id or await shared.open(await self.unseeded())
        return orjson.Fragment(await shared.run(session_id, _call_id(CURRENT.get()), work)), session_id

    async def open_session(self, body: bytes, session_id: str) -> str:
        """Seeds a session and returns its id."""
        if self._shared_sessions is not None:
            before = await self._shared_sessions.state(session_id)
            fresh = await self._seed(body, before)
            if before is not None and not self._seed.wants_state:
                await self._let_go(before)
            return await self._shared_sessions.open(fresh, session_id if before is not None else "")
        held = self.sessions.find(session_id) if session_id else None
        state = await self._seed(body, held.state if held else None)
        opened = self.sessions.open(state, held.id if held else "")
        if held is not None and held.state is not state:
            await self._release(held)
        return opened.id

    def session_id(self, call: Call) -> str:
        return call.cookies().get(self._cookie, "")

    async def _on_seed(self, call: Call) -> Answer:
        if self._seedless:
            return Answer(b"{}", headers=self._seedless)
        session_id = await self.open_session(call.body, self.session_id(call))
        headers = self._set_cookie(session_id)
        if self._shared_sessions is not None:
            reply = self.advertise(await self._shared_sessions.state(session_id))
            headers += ((HEADER_SHARED.encode(), b"1"),)
        else:
            session = self.sessions.find(session_id)
            reply = self.advertise(session.state) if session else {}
        if self.config.expose_tools_over_mcp:
            reply["mcp"] = mcp.advert(self, session_id)
        return json_answer(reply, headers)

    async def _on_verify(self, call: Call) -> Answer:
        call.failure_headers = self._seedless
        session_id = self.session_id(call)
        if self._shared_sessions is not None and session_id:
            return await self._verify_shared(self._shared_sessions, call, session_id)
        session = self.sessions.find(session_id) if session_id else None
        if session is None and session_id and self._verify.wants_state:
            raise self._lost()
        request = call.read(self._verify.parse)
        if self.config.expose_tools_over_mcp:
            mcp.take_prefixes_off(request, self.name)
        outcome = await self._run_verify(request, session.state if session else None)
        fields = reward_fields(outcome)
        try:
            body = splice_pieces(call.body, fields, keys=top_level_keys(request))
        except UNWRITABLE:
            body = splice_pieces(call.body, make_writable(fields), keys=top_level_keys(request))
        if session is not None and (dropped := self.sessions.drop(session.id)):
            await self._release(dropped)
        return Answer(body, headers=self._seedless)

    async def _verify_shared(self, shared: SharedSessions, call: Call, session_id: str) -> Answer:
        """The state goes with the reward; the reward is remembered for a while, for a caller that did not get it."""
        request = call.read(self._verify.parse)
        if self.config.expose_tools_over_mcp:
            mcp.take_prefixes_off(request, self.name)
        left: list[Any] = []

        async def work(state: Any) -> bytes:
            left[:] = [state]
            return result_to_json(reward_fields(await self._run_verify(request, state)))

        if self._verify.wants_state:
            fields = await shared.run(session_id, _call_id(call), work, ends=True)
        else:
            fields = await work(None)
            left[:] = [await shared.drop(session_id)]
        for state in left:
            await self._let_go(state)
        return Answer(splice_pieces(call.body, from_json(fields), keys=top_level_keys(request)))

    async def _run_verify(self, request: BaseModel, state: Any) -> Any:
        """An answer that costs too much to check is worth 0: a failure would be a way out for a policy that loses."""
        try:
            return await self._verify.run(request, state)
        except AnswerTooCostly as error:
            return {"reward": 0.0, "reason": str(error), "library_error": error.cause}

    async def _on_close(self, call: Call) -> Answer:
        if self._shared_sessions is not None:
            state = await self._shared_sessions.drop(self.session_id(call))
            await self._let_go(state)
            return json_answer({"closed": state is not None})
        session = self.sessions.drop(self.session_id(call))
        if session is not None:
            await self._release(session)
        return json_answer({"closed": session is not None})

    async def _on_aggregate(self, call: Call) -> Answer:
        replies = metrics.parse_replies(call.body)
        result = metrics.aggregate(replies)
        result["agent_metrics"].update(self.aggregate(replies))
        return json_answer(result)

    async def _on_reverify_mode(self, _: Call) -> Answer:
        return json_answer(self.reverify_mode)

    async def _session_for_tool(self, session_id: str) -> Session[Any]:
        session = self.sessions.find(session_id) if session_id else None
        if session is None and session_id:
            raise self._lost()
        return session or self.sessions.open(await self.unseeded())

    def _lost(self) -> RolloutError:
        return RolloutError("lost_session", "this session is not here: its replica went away, or its time ran out")

    def _set_cookie(self, session_id: str) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"set-cookie", f"{self._cookie}={session_id}; Path=/; HttpOnly; SameSite=lax".encode()),)

    async def _release(self, session: Session[Any]) -> None:
        await self._let_go(session.state)

    async def _let_go(self, state: Any) -> None:
        if state is None:
            return
        try:
            await self.close(state)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (an author's close: neither a reward nor the next session is to suffer)
            log.error("close: %s", error_text(error), exc_info=error)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, self.config.session_ttl_seconds / 4))
            for session in self.sessions.take_expired():
                await self._release(session)


def _call_id(call: Call | None) -> str:
    return (call.header(_CALL) or b"").decode("latin-1")[:64] if call else ""


def top_level_keys(model: BaseModel) -> set[str]:
    return model.model_fields_set | set(model.model_extra or ())
