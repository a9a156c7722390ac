"""Rows held to what a server reads of them: the models of its `seed` and `verify`, and data of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gym.errors import GymError, Problem, UserError
from gym.server.author_hook import Hook
from gym.server.base import ServerApp
from gym.server.config import Settings
from gym.server.offered_tools import fill_own_tools, unknown_tools
from gym.server.resources import ResourcesServer
from gym.wire.expected import expected_at
from gym.wire.failures import RolloutError
from gym.wire.rows import AUTO, Row, VerifyRequest, asks_for_tools, read_body

NO_RESPONSE: Final = b',"response":{"output":[]}}'
SHOWN: Final = 80


class RowChecker:
    """`start` it, ask for every row, `stop` it. It opens no session, and asks no model and no sandbox."""

    def __init__(self, server: ResourcesServer[Any]) -> None:
        self._server = server
        self._verify = Hook.of(server.verify, VerifyRequest).model
        seed = server.row_model
        self._seed = None if seed is Row else seed
        self._has_data = type(server).check_row is not ResourcesServer.check_row

    @classmethod
    def of(cls, app: object, name: str, fields: Mapping[str, Any]) -> RowChecker:
        if not isinstance(app, ServerApp):
            raise UserError(f"{name} is not a server of this SDK: its rows cannot be checked in process.")
        server = app.make(Settings(name=name, fields=fields))
        if not isinstance(server, ResourcesServer):
            raise UserError(f"{name} is not a resources server: it verifies no rows.")
        return cls(server)

    async def start(self) -> None:
        if self._has_data:
            await self._server.start()

    async def stop(self) -> None:
        try:
            if self._has_data:
                await self._server.stop()
        finally:
            await self._server.close_owned()

    async def check(self, raw: bytes) -> list[Problem]:
        """What is wrong with a line that is a JSON object; without file and number, which the caller knows."""
        raw = self._fill(raw) if AUTO.encode() in raw else raw
        try:
            request = read_body(self._verify, raw[:-1] + NO_RESPONSE)
        except ValidationError as error:
            return _explain(error, self._verify)
        problems = self._check_seed(raw) if self._seed else []
        problems = problems or self._check_tools(request)
        return problems or (await self._check_data(request) if self._has_data else [])

    def _check_tools(self, request: BaseModel) -> list[Problem]:
        offered = getattr(getattr(request, "responses_create_params", None), "tools", None)
        return list(unknown_tools(offered if isinstance(offered, list) else (), self._server))

    def _fill(self, raw: bytes) -> bytes:
        row = orjson.loads(raw)
        return orjson.dumps(fill_own_tools(row, self._server)) if asks_for_tools(row) else raw

    def _check_seed(self, raw: bytes) -> list[Problem]:
        assert self._seed is not None
        try:
            read_body(self._seed, raw)
        except ValidationError as error:
            return _explain(error, self._seed)
        return []

    async def _check_data(self, request: BaseModel) -> list[Problem]:
        try:
            return list(await self._server.check_row(request))
        except RolloutError as error:
            return [Problem(error.message)]
        except GymError as error:
            return [Problem(error.what, hint=error.hint)]


def path_of(place: Sequence[int | str]) -> str:
    """`ground_truth[0].name`."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _explain(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    found = [one for one in error.errors(include_url=False) if one["loc"][:1] != ("response",)]
    return [_finding(one, model) for one in found]


def _finding(one: ErrorDetails, model: type[BaseModel]) -> Problem:
    key = path_of(one["loc"])
    if one["type"] == "missing":
        wanted = expected_at(model, one["loc"])
        return Problem("is missing", key=key, hint=f"expected: {wanted}" if wanted else "", value=_short(one["input"]))
    return Problem(one["msg"].removeprefix("Value error, "), key=key, value=_short(one["input"]))


def _short(value: Any) -> str:
    """What is there; of a row what stands beside its question, which is long and the same in many."""
    if isinstance(value, Mapping):
        value = {key: one for key, one in value.items() if key not in ("responses_create_params", "response")}
    text = orjson.dumps(value[:SHOWN] if isinstance(value, str) else value, default=str).decode()
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
