"""An office assistant: 27 tools over email, calendar, website, project boards and customers, judged by what is left.

Every session shares the tables of the seed and pays only for what it changes.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from office.desk import Office, load_seed
from office.lacking import Lacking, find_lacking
from office.outcome import differing, read_arguments, replay
from office.schemas import SPECS, schema_of
from office.toolbox import run_tool
from office.truth import Calls, WrongTruth, replay_truth
from pydantic import BaseModel, ConfigDict

from gym.server import Problem, ResourcesConfig, ResourcesServer, Row, Score, Tolerated, VerifyRequest
from gym.server.config import Settings
from gym.server.tools import Tool
from gym.wire.failures import RolloutError

HERE = Path(__file__).parent
TRUTH = "ground_truth"
MANY_CALLS = 50  # more of them than these are replayed beside the event loop
FAILS = "a call that fails changes nothing in the office, and what is left there is what counts"
NO_SESSION = "Session not initialized. Please call seed_session first."


class WorkplaceConfig(ResourcesConfig):
    strict: bool = False
    tables: str = "data/tables"  # a folder with the six CSV files; a relative one is looked for in the server's folder


class TruthCall(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    arguments: str


class WorkplaceRow(Row):
    ground_truth: list[TruthCall] | None = None


class WorkplaceTask(VerifyRequest):
    ground_truth: list[TruthCall]
    id: int | str | None = None
    category: str | None = None
    environment_name: str | None = None


class Anything(BaseModel):
    """The arguments of any tool: the tool itself looks at them, and tells the model."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True)
class OfficeTool(Tool):
    """Answers `{"output": …}` whatever it is called with, as these tools always have."""

    def schema(self) -> dict[str, Any]:
        return schema_of(self.name)

    async def call(self, body: bytes, state: Office) -> dict[str, Any]:
        arguments = read_arguments(body.strip() or b"{}")
        if arguments is None:
            raise RolloutError("row", f"{self.name}: the arguments are not a JSON object")
        given = {key: value for key, value in arguments.items() if value is not None}
        return {"output": run_tool(state, self.name, given)}


class WorkplaceAssistant(ResourcesServer[Office]):
    reverify_mode = "stateless"
    config: WorkplaceConfig
    tolerates = tuple(Tolerated(change, FAILS) for change in ("list of guesses", "both options"))

    def __init__(self, config: WorkplaceConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.seed_tables = load_seed(HERE / config.tables)
        self.tools = {name: _make_tool(name) for name in SPECS}

    async def seed(self, row: WorkplaceRow) -> Office:
        """A row whose truth does nothing on these tables is refused before a policy works on it."""
        await self.replay_truth(_calls(row.ground_truth or []))
        return Office.open(self.seed_tables)

    async def check_row(self, row: WorkplaceTask) -> list[Problem]:
        """The ids that the tables lack; where they have all of them, the call that does nothing there."""
        calls = _calls(row.ground_truth)
        try:
            await asyncio.to_thread(replay_truth, self.seed_tables, calls, strict=self.config.strict)
        except WrongTruth as error:
            hint = (
                f"looked in {HERE / self.config.tables}; set `tables` to the folder of the six CSV files of these rows"
            )
            lacking = [_lacking(one, hint) for one in find_lacking(Office.open(self.seed_tables), calls)]
            return lacking or [Problem("a call does nothing on these tables", key=TRUTH, hint=hint, value=str(error))]
        return []

    async def unseeded(self) -> Office:
        raise RolloutError("row", NO_SESSION, status=400)

    async def verify(self, rollout: WorkplaceTask) -> Score:
        """1.0 when the calls of the response leave the same office behind as those of the row's truth."""
        wanted = await self.replay_truth(_calls(rollout.ground_truth))
        made = [(str(call.get("name")), call.get("arguments")) for call in rollout.function_calls]
        found = await self.replay(made)
        tables = differing(found, wanted, strict=self.config.strict)
        reason = f"the end state differs in: {', '.join(tables)}" if tables else ""
        if self.config.strict and not reason:
            reason = _why_idle(made, rollout)
        return Score(reward=float(not reason), reason=reason)

    async def replay(self, calls: list[tuple[str, Any]]) -> Office:
        if len(calls) <= MANY_CALLS:  # a call takes a tenth of a millisecond
            return replay(self.seed_tables, calls, drop_nulls=self.config.strict)
        return await asyncio.to_thread(replay, self.seed_tables, calls, drop_nulls=self.config.strict)

    async def replay_truth(self, truth: Calls) -> Office:
        try:
            if len(truth) <= MANY_CALLS:
                return replay_truth(self.seed_tables, truth, strict=self.config.strict)
            return await asyncio.to_thread(replay_truth, self.seed_tables, truth, strict=self.config.strict)
        except WrongTruth as error:
            which = f"the setting `tables` is {self.config.tables}: is the row made for other tables?"
            raise RolloutError("row", f"ground_truth: {error}. {which}") from None

    def extend(self, app: FastAPI) -> None:
        """An unknown tool and an unknown session are different errors."""
        super().extend(app)

        @app.post("/{tool}", include_in_schema=False)
        async def unknown(tool: str, request: Request) -> JSONResponse:
            if self.sessions.find(request.cookies.get(self._cookie, "")) is None:
                return JSONResponse({"detail": NO_SESSION}, 400)
            return JSONResponse({"output": f"Error executing tool '{tool}': '{tool}'"})


def _make_tool(name: str) -> OfficeTool:
    return OfficeTool(name, SPECS[name].description, Anything, _not_called, (), wants_state=True)


async def _not_called() -> None:
    """An OfficeTool finds its function by name."""


def _lacking(one: Lacking, hint: str) -> Problem:
    key = f"{TRUTH}[{one.index}].arguments.{one.name}"
    return Problem(f"is not an id of {one.file}", key=key, hint=hint, value=one.id)


def _calls(truth: list[TruthCall]) -> Calls:
    return [(call.name, call.arguments) for call in truth]


def _why_idle(made: list[tuple[str, Any]], rollout: WorkplaceTask) -> str:
    """Nothing done is right only where nothing was to be done, and then it has to be said."""
    if unknown := next((name for name, _ in made if name not in SPECS), None):
        return f"there is no tool named {unknown!r}"
    return "" if made or rollout.output_text.strip() else "the response neither calls a tool nor says anything"


app = WorkplaceAssistant.app()
