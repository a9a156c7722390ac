"""Records the model calls of a session: `/sessions/<id>/v1/…` and `/ng-rollout/<id>/v1/…`, in every dialect.

`GET /sessions/<id>/trace` gives them back from all replicas, or fails: a trace with a hole is never given silently.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from typing import Any, Final

import orjson

from gym.labels import HEADER_CALLS, HEADER_CAPTURE, HEADER_ROLLOUT, HEADER_SESSION_TOKEN
from gym.server.asgi import SESSION_ROUTE, SESSION_UNKNOWN, Answer, Call, Handler
from gym.server.base import Route, json_answer
from gym.server.config import Settings
from gym.server.merged_trace import MergedTrace
from gym.server.siblings import Siblings
from gym.server.trace_store import CaptureLimits, RecordedCall, Trace, TraceStore, owned_by_another, trace_lost
from gym.wire.failures import RolloutError
from gym.wire.json_text import parse_or, repair_body, write_json
from gym.wire.model_calls import DIALECTS, rllm_record, tokens_of_reply
from gym.wire.pieces import join_body

SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:~-]{0,199}")
ASK_SECONDS: Final = 5.0  # for another replica to say whether it has calls of a session
GATHER_SECONDS: Final = 60.0  # for it to send them
SWEEP_SECONDS: Final = 30.0
CANCELLED: Final = 499


class Capture:
    """One per model server. Its cost to calls of no session is one comparison."""

    def __init__(self, name: str, limits: CaptureLimits, settings: Settings) -> None:
        self.store = TraceStore(limits)
        self._name = name
        self._siblings = Siblings(name, settings.discovery)
        self._claims: dict[str, asyncio.Task[None]] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    def routes(self) -> list[Route]:
        unknown = (Route(SESSION_UNKNOWN, self._on_unknown, method=method) for method in ("GET", "POST", "DELETE"))
        return [
            Route("/sessions", self._on_create, "A new session with an id of its own"),
            Route("/sessions", self._on_status, "How much is recorded", method="GET"),
            Route(SESSION_ROUTE, self._on_info, "A session, without its calls", method="GET"),
            Route(SESSION_ROUTE, self._on_batch, "Only `/sessions/batch_delete`: drops several"),
            Route(SESSION_ROUTE, self._on_delete, "Drops what was recorded", method="DELETE"),
            Route(f"{SESSION_ROUTE}/trace", self._on_trace, "Every recorded call of a session", method="GET"),
            Route(f"{SESSION_ROUTE}/traces", self._on_records, "The same as rLLM's client reads it", method="GET"),
            Route(
                f"{SESSION_ROUTE}/holder",
                self._on_holder,
                "Whether this replica has calls of it",
                method="GET",
            ),
            *unknown,
        ]

    def recorded(self, handler: Handler) -> Handler:
        """The handler, and a record of each of its calls that is of a session."""

        async def record(call: Call) -> Answer:
            return await self._record(handler, call) if call.session else await handler(call)

        return record

    async def aclose(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in tuple(self._claims.values()):
            task.cancel()
        self.store.close()
        await self._siblings.aclose()

    async def _record(self, handler: Handler, call: Call) -> Answer:
        trace = await self._open(call)
        started_at, began = time.time(), time.monotonic()
        status, reply, stream = CANCELLED, CANCELLED_REPLY, False
        trace.in_flight += 1
        try:
            answer = await handler(call)
            status, stream = answer.status, answer.whole is not None
            reply = join_body(answer.body) if answer.whole is None else write_json(answer.whole)
            return answer
        except RolloutError as error:
            error.server = error.server or self._name
            status, reply = error.status, error.to_body()
            raise
        except Exception as error:
            failure = RolloutError("model", f"a bug of this server: {type(error).__name__}", server=self._name)
            status, reply = failure.status, failure.to_body()
            raise
        finally:
            trace.in_flight -= 1
            seconds = time.monotonic() - began
            recorded = RecordedCall(call.path, started_at, seconds, status, stream)
            self.store.add(trace, recorded, repair_body(call.body), reply)

    # Which session, and whose.

    async def _open(self, call: Call) -> Trace:
        session_id, owner, rollout = _session_of(call), _owner_of(call), _rollout_of(call)
        trace = self.store.open(session_id, owner, rollout)
        if not trace.claimed:
            trace.claimed = True
            self._sweep_later()
            if self._siblings.possible and call.header(_CAPTURE) != b"own":
                claim = self._claims[session_id] = asyncio.create_task(self._claim(trace, call))
                claim.add_done_callback(_mark_seen)  # its callers may have gone
        if self._claims and session_id in self._claims:
            await asyncio.shield(self._claims[session_id])
        return trace

    async def _claim(self, trace: Trace, call: Call) -> None:
        """Asks the other replicas whether they know the session, and tells them that this one has calls of it now."""
        headers = [(_CAPTURE, self._siblings.mark.encode()), *_passed_on(call)]
        try:
            for one in await self._siblings.ask_all("GET", f"/sessions/{trace.id}/holder", headers, ASK_SECONDS):
                if one.conflicts:
                    self.store.drop(trace.id)
                    raise owned_by_another(trace.id)
                if one.reply is None:
                    trace.unsure.add(one.url)
                elif one.fields.get("has_calls"):
                    trace.holders.add(one.mark)
        finally:
            del self._claims[trace.id]

    def _find(self, call: Call) -> Trace | None:
        trace = self.store.find(_session_of(call), _owner_of(call))
        if trace is not None and trace.lost:
            raise trace_lost(trace.id, trace.lost)
        return trace

    def _sweep_later(self) -> None:
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        self.store.expire()
        if len(self.store):
            self._sweep_later()

    # Routes.

    async def _on_create(self, call: Call) -> Answer:
        given = _session_id_in(call.body)
        session_id = given or f"s-{secrets.token_hex(16)}"
        taken = self.store.find(session_id, _owner_of(call)) is not None
        if given and not taken:
            replies = await self._siblings.ask_all("GET", f"/sessions/{given}/holder", _passed_on(call), ASK_SECONDS)
            taken = any(one.conflicts or one.fields.get("held") for one in replies)
        if taken:
            raise owned_by_another(session_id)
        self.store.open(session_id, _owner_of(call), _rollout_of(call))
        self._sweep_later()
        return json_answer({"session_id": session_id, "base_path": f"sessions/{session_id}/v1"})

    async def _on_status(self, _: Call) -> Answer:
        """Without ids: a caller who knows an id may read what it recorded."""
        memory, disk = self.store.memory, self.store.disk
        return json_answer({"sessions": len(self.store), "memory_bytes": memory, "disk_bytes": disk})

    async def _on_info(self, call: Call) -> Answer:
        gathered = await self._gather(call)
        return json_answer({**gathered.summary(), "trace_count": len(gathered.calls)})

    async def _on_delete(self, call: Call) -> Answer:
        session_id = _session_of(call)
        return json_answer({"session_id": session_id, "deleted": await self._delete(session_id, call)})

    async def _on_batch(self, call: Call) -> Answer:
        """As rLLM's client does it."""
        fields = _fields_in(call.body) if call.session == "batch_delete" else {}
        ids = fields.get("session_ids")
        if not isinstance(ids, list) or not all(isinstance(one, str) and SESSION_ID.fullmatch(one) for one in ids):
            raise RolloutError("row", 'POST /sessions/batch_delete takes {"session_ids": ["…"]}')
        return json_answer({"deleted": sum([await self._delete(one, call) for one in ids])})

    async def _delete(self, session_id: str, call: Call) -> int:
        self.store.find(session_id, _owner_of(call))
        deleted = self.store.drop(session_id)
        if call.header(_CAPTURE) == b"here":
            return deleted
        headers = [(_CAPTURE, b"here"), *_passed_on(call)]
        replies = await self._siblings.ask_all("DELETE", f"/sessions/{session_id}", headers, ASK_SECONDS)
        return deleted + sum(int(one.fields.get("deleted") or 0) for one in replies)

    async def _on_trace(self, call: Call) -> Answer:
        if call.header(_CAPTURE) == b"here":
            return await self._on_part(call)
        gathered = await self._gather(call)
        count = len(gathered.calls) + gathered.not_recorded
        headers = ((HEADER_CALLS.encode(), b"%d" % count),)
        return Answer(_join(gathered.summary(), gathered.calls), headers=headers)

    async def _on_records(self, call: Call) -> Answer:
        gathered = await self._gather(call)
        records = []
        for _, text in gathered.calls:
            records.append(rllm_record(gathered.session_id, orjson.loads(text)))
            await asyncio.sleep(0)
        return json_answer(records)

    async def _on_holder(self, call: Call) -> Answer:
        """The replica that asks has calls from now on. Remembered here too: it may be gone when the trace is read."""
        session_id, owner = _session_of(call), _owner_of(call)
        asker = (call.header(_CAPTURE) or b"").decode("latin-1")
        own = self._siblings.introduction()
        if asker == self._siblings.mark:
            return json_answer(own)
        trace = self.store.open(session_id, owner, _rollout_of(call)) if asker else self.store.find(session_id, owner)
        if trace is not None and asker:
            trace.holders.add(asker)
            self._sweep_later()
        return json_answer({**own, "held": trace is not None, "has_calls": trace is not None and trace.claimed})

    async def _on_part(self, call: Call) -> Answer:
        """What this replica has, for another one."""
        trace = self._find(call)
        head = {**self._siblings.introduction(), "held": trace is not None}
        if trace is None:
            return json_answer({**head, "calls": []})
        known = {"holders": sorted(trace.holders), "unsure": sorted(trace.unsure)}
        counts = {"not_recorded": trace.not_recorded, "in_flight": trace.in_flight}
        age = time.monotonic() - trace.created
        return Answer(_join({**head, **known, **counts, "trace_age": age}, await self._read(trace)))

    async def _on_unknown(self, call: Call) -> Answer:
        what = "below /sessions/ID are v1/…, trace, traces; an ID is of letters, digits and any of _ . : ~ -"
        raise RolloutError("row", f"no such path of a session: {what}", status=404)

    # Reading.

    async def _gather(self, call: Call) -> MergedTrace:
        """The calls of all replicas."""
        session_id = _session_of(call)
        trace = self._find(call)
        gathered = MergedTrace(session_id, self._name)
        if trace is not None:
            age = time.monotonic() - trace.created
            gathered.add(self._siblings.mark, age, trace.holders, trace.unsure, await self._read(trace))
            gathered.not_recorded, gathered.in_flight = trace.not_recorded, trace.in_flight
        headers = [(_CAPTURE, b"here"), *_passed_on(call)]
        replies = await self._siblings.ask_all("GET", f"/sessions/{session_id}/trace", headers, GATHER_SECONDS)
        for one in replies:
            gathered.add_sibling(one)
        gathered.check(replies, self.store.why_gone(session_id))
        gathered.calls.sort(key=lambda item: item[0])
        return gathered

    async def _read(self, trace: Trace) -> list[tuple[float, bytes]]:
        """(when it began, JSON) of each call; others are served between two of them."""
        found = []
        for number, call in enumerate(tuple(trace.calls)):
            request, reply = self.store.texts(trace, call)
            call_id = f"{trace.id}-{self._siblings.mark}-{number}"
            found.append((call.started_at, _call_to_json(call_id, call, request, reply)))
            await asyncio.sleep(0)
        return found


def _mark_seen(task: asyncio.Task[None]) -> None:
    """An error that no caller waits for any more is not logged as never retrieved."""
    if not task.cancelled():
        task.exception()


def _session_of(call: Call) -> str:
    if not SESSION_ID.fullmatch(call.session):
        what = "a session's id is 1 to 200 letters, digits and any of _ . : ~ -, and begins with a letter or digit"
        raise RolloutError("row", f"{what}; found {call.session[:80]!r}")
    return call.session


def _fields_in(body: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise RolloutError("row", f"body: not JSON: {error}") from None
    return fields if isinstance(fields, dict) else {}


def _session_id_in(body: bytes) -> str:
    """The one that the caller wants, or none."""
    given = _fields_in(body).get("session_id")
    if given is not None and not (isinstance(given, str) and SESSION_ID.fullmatch(given)):
        raise RolloutError("row", f"session_id: 1 to 200 letters, digits and any of _ . : ~ -; found {given!r:.80}")
    return given or ""


def _owner_of(call: Call) -> bytes:
    token = call.header(_TOKEN)
    return hashlib.sha256(token).digest()[:16] if token else b""


def _rollout_of(call: Call) -> str:
    """By its header alone: the id in a path is the session's."""
    return (call.header(_ROLLOUT) or b"").decode("latin-1")[:200]


def _passed_on(call: Call) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in call.headers if name in (_TOKEN, _ROLLOUT)]


def _call_to_json(call_id: str, call: RecordedCall, request: bytes, reply: bytes) -> bytes:
    parsed = parse_or(reply)
    tokens = tokens_of_reply(parsed) if call.status < 400 else tokens_of_reply(None)
    known = call.status < 400 or parse_or(request) is not None
    head = {
        "id": call_id,
        "path": call.path,
        "dialect": DIALECTS.get(call.path, ""),
        "started_at": call.started_at,
        "seconds": call.seconds,
        "status": call.status,
        "stream": call.stream,
        **tokens._asdict(),
        "request": orjson.Fragment(request) if known else None,
        "reply": orjson.Fragment(reply),
    }
    if not known:
        head["request_text"] = request[:2000].decode("utf-8", "replace")
    return write_json(head)


def _join(head: dict[str, Any], calls: list[tuple[float, bytes]]) -> bytes:
    numbered = (b'{"index":%d,' % index + text[1:] for index, (_, text) in enumerate(calls))
    return write_json(head)[:-1] + b',"calls":[' + b",".join(numbered) + b"]}"


CANCELLED_REPLY: Final = write_json(
    {
        "error": {
            "kind": "cancelled",
            "message": "the caller went away, or its deadline passed, before there was a reply",
        }
    }
)
_CAPTURE = HEADER_CAPTURE.encode()
_ROLLOUT = HEADER_ROLLOUT.encode()
_TOKEN = HEADER_SESSION_TOKEN.encode()
