"""A server's `data/verifier_cases.jsonl`: the reward each answer must get, checked over HTTP with the real app.

`python -m gym.server.cases FOLDER OUT` runs them in the server's own environment and writes one outcome a line.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import from_json

from gym import labels
from gym.errors import GymError, UserError
from gym.server.base import ServerApp
from gym.server.case_log import NO_ANSWER, NO_START, ROW_PROBLEMS, CaseLog, CaseOutcome, case_seconds, not_run
from gym.server.case_rows import ExampleRows, numbered_lines
from gym.server.errors import validation_message
from gym.server.offered_tools import check_examples, fill_own_tools
from gym.server.serve import load_app
from gym.server.testing import ANSWER_SECONDS, Answered, Caller, Scripted, ScriptedJudge, running, scripted_judge

CASES = Path("data") / "verifier_cases.jsonl"
NO_JUDGE = "no_judge"
Kind = Literal["full_reward", "zero_reward", "partial", "malformed", "adversarial", "determinism"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExpectedError(_Strict):
    status: int
    kind: str | None = None


class CaseStep(_Strict):
    """A tool call between seed and verify; `output`, where it is given, is what the tool must answer."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    output: Any = None


class Case(_Strict):
    """One line of the file."""

    name: str
    kind: Kind
    request: dict[str, Any]
    expected_reward: float | None = None
    expected_error: ExpectedError | None = None
    expected_fields: dict[str, Any] = Field(default_factory=dict)
    config: dict[str, Any] = Field(default_factory=dict)
    steps: tuple[CaseStep, ...] = ()
    judge: tuple[Scripted, ...] = ()
    oracle: bool = False
    floor: float = 0.0  # of an oracle's row: what an audit's worthless answers may earn on it
    floor_reason: str = ""
    _line: int = PrivateAttr(0)  # in its file; 0 where it has none

    @property
    def place(self) -> str:
        return f"{CASES}:{self._line}" if self._line else ""

    @model_validator(mode="after")
    def _expects_one_thing(self) -> Case:
        if (self.expected_reward is None) == (self.expected_error is None):
            raise ValueError("give expected_reward or expected_error, and not both")
        reward = self.expected_reward
        if self.kind == "full_reward" and not (reward is not None and reward > 0):
            raise ValueError("kind full_reward has an expected_reward above 0")
        if self.kind == "zero_reward" and not (reward is not None and reward <= 0):
            raise ValueError("kind zero_reward has an expected_reward of 0, or below")
        if self.oracle and self.kind != "full_reward":
            raise ValueError("only a full_reward case can be an oracle's")
        if self.floor and not (self.oracle and self.floor_reason):
            raise ValueError("a floor belongs to an oracle's case and needs a floor_reason")
        return self


def load_cases(path: Path) -> tuple[Case, ...]:
    """Every case; an error names the line."""
    try:
        lines = numbered_lines(path)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}", "`gym new resources NAME` writes one to start from"
        ) from None
    cases: dict[str, Case] = {}
    rows = ExampleRows(path)
    for number, line in lines:
        where = f"{path}:{number}"
        try:
            case = Case.model_validate(rows.fill(from_json(line), where))
        except ValidationError as error:
            raise UserError(f"{where}: {validation_message(error)}") from None
        except ValueError as error:
            raise UserError(f"{where}: not JSON: {error}", "a case is one JSON object a line") from None
        if case.name in cases:
            raise UserError(f"{path}:{number}: a second case called {case.name!r}")
        case._line = number
        cases[case.name] = case
    return tuple(cases.values())


def missing_kinds(cases: Sequence[Case], *, constant: bool = False) -> Iterator[str]:
    """What every file has to hold, and this one does not. `constant`: an example may pay for every answer."""
    for kind, least in (
        ("full_reward", 2),
        ("zero_reward", 0 if constant else 2),
        ("malformed", 1),
        ("adversarial", 2),
    ):
        there = sum(case.kind == kind for case in cases)
        if there < least:
            yield f"{there} {kind} cases, {least} at least"


Begun = Callable[[str, Mapping[str, CaseOutcome]], object]  # a case by its name, and the outcomes before it


def _unwatched(_name: str, _done: Mapping[str, CaseOutcome]) -> None: ...


async def run_cases(
    app: ServerApp, name: str, fields: Mapping[str, Any], cases: Sequence[Case], begun: Begun = _unwatched
) -> list[CaseOutcome]:
    """One after another; those with the same configuration share a running app. One without an answer ends it."""
    outcomes: dict[str, CaseOutcome] = {}
    groups: dict[bytes, list[Case]] = {}
    for case in cases:
        groups.setdefault(orjson.dumps(case.config, option=orjson.OPT_SORT_KEYS), []).append(case)
    for group in groups.values():
        configured = {**fields, **group[0].config}
        try:
            async with started(app, name, configured) as bench:
                for case in group:
                    begun(case.name, outcomes)
                    outcomes[case.name] = await _run_in_time(bench, case, case_seconds(fields))
                    if outcomes[case.name].is_silent:
                        outcomes = not_run(waiting(cases), case.name) | outcomes
                        return [outcomes[one.name] for one in cases]
        except NotStarted as error:
            outcomes |= {case.name: _outcome(case, f"{NO_START}{error}") for case in group if case.name not in outcomes}
    return [outcomes[case.name] for case in cases]


def waiting(cases: Sequence[Case]) -> dict[str, Callable[..., CaseOutcome]]:
    return {
        case.name: partial(_waiting, CaseOutcome(case.name, case.kind, False, _expectation(case), "", case.place))
        for case in cases
    }


def _waiting(blank: CaseOutcome, got: str, reason: str = "") -> CaseOutcome:
    return replace(blank, got=got, reason=reason or blank.reason)


async def _run_in_time(bench: Bench, case: Case, seconds: float) -> CaseOutcome:
    try:
        async with asyncio.timeout(seconds):
            outcome = await bench.run(case)
    except TimeoutError:
        outcome = _outcome(case, f"{NO_ANSWER} within {seconds:g} s")
    return replace(outcome, reason=case.place) if outcome.is_silent else outcome


class NotStarted(GymError):
    """The app refused its configuration, or broke over it."""


class Bench:
    """A running app, and a model that plays every model that its configuration names."""

    def __init__(self, url: str, judge: ScriptedJudge, app: ServerApp) -> None:
        self.url = url
        self.judge = judge
        self.app = app
        self.verify_seconds = 0.0  # of the last verify

    async def run(self, case: Case) -> CaseOutcome:
        reply = await self.ask(case)
        if case.kind == "determinism" and isinstance(reply, Answered):
            second = await self.ask(case)
            if isinstance(second, Answered) and _reward(second) != _reward(reply):
                reply = f"{_reward(reply)}, then {_reward(second)}"
        return _outcome(case, reply)

    async def ask(
        self, case: Case, request: Mapping[str, Any] | None = None, *, raw: bytes | None = None
    ) -> Answered | str:
        """Seed, steps, verify in a session of their own; a text when a step went wrong, or none of them answered.

        `raw` goes to verify as it is.
        """
        try:
            given = case.request if request is None else request
            return await self._ask(case, fill_own_tools(given, self.app.server), raw)
        except TimeoutError:
            return f"{NO_ANSWER} within {ANSWER_SECONDS:g} s"

    async def _ask(self, case: Case, body: dict[str, Any], raw: bytes | None) -> Answered | str:
        self.judge.texts = list(case.judge)
        async with Caller(self.url) as caller:
            row = {key: value for key, value in body.items() if key != "response"}
            seeded = await caller.post("/seed_session", row)
            if seeded.status >= 400:
                return seeded
            reply = seeded
            for step in case.steps:
                reply = await caller.post(f"/{step.tool}", step.arguments)
                if step.output is not None and reply.body != step.output:
                    return f"{step.tool} answered {_short(reply.body)}, not {_short(step.output)}"
            if "response" not in body:
                return reply
            began = time.perf_counter()
            reply = await caller.post("/verify", body if raw is None else raw)
            self.verify_seconds = time.perf_counter() - began
            return reply


@asynccontextmanager
async def started(app: ServerApp, name: str, fields: Mapping[str, Any]) -> AsyncIterator[Bench]:
    """A `Bench` of the app with these fields."""
    models = _named_models(fields)
    async with AsyncExitStack() as stack:
        judge = await stack.enter_async_context(scripted_judge(name=next(iter(models), NO_JUDGE)))
        document = {model: judge.document[judge.name] for model in models}
        access = {
            "sandbox_url": os.environ.get(labels.ENV_SANDBOX_URL, ""),
            "sandbox_token": os.environ.get(labels.ENV_SANDBOX_TOKEN, ""),
        }
        own = app.configured(fields, name=name, document=document, **access)
        try:
            url = await stack.enter_async_context(running(own))
        except RuntimeError as error:
            raise NotStarted(str(own.failure or error)) from error
        yield Bench(url, judge, own)


def _named_models(value: Any) -> list[str]:
    """Every model that a configuration refers to, the first one first."""
    if isinstance(value, Mapping):
        if value.get("type") == "responses_api_models" and isinstance(value.get("name"), str):
            return [value["name"]]
        return [name for one in value.values() for name in _named_models(one)]
    return [name for one in value for name in _named_models(one)] if isinstance(value, list) else []


def _outcome(case: Case, reply: Answered | str) -> CaseOutcome:
    expected = _expectation(case)
    if isinstance(reply, str):
        return CaseOutcome(case.name, case.kind, False, expected, reply)
    body = reply.body if isinstance(reply.body, dict) else {}
    if reply.status >= 400:
        return _error_outcome(case, reply.status, body, expected)
    reward = _reward(reply)
    passed = case.expected_reward is not None and reward is not None and math.isclose(reward, case.expected_reward)
    wrong = [
        f"{key} is {_short(body.get(key))}, not {_short(value)}"
        for key, value in case.expected_fields.items()
        if body.get(key) != value
    ]
    reason = "; ".join([*wrong, str(body.get("reason") or "")]).strip("; ")
    return CaseOutcome(
        case.name,
        case.kind,
        passed and not wrong,
        expected,
        f"reward {reward:g}" if reward is not None else "no reward",
        reason,
    )


def _error_outcome(case: Case, status: int, body: Mapping[str, Any], expected: str) -> CaseOutcome:
    error = body.get("error")
    kind, message = (error.get("kind"), error.get("message")) if isinstance(error, dict) else (None, str(body)[:200])
    wanted = case.expected_error
    passed = wanted is not None and wanted.status == status and wanted.kind in (None, kind)
    return CaseOutcome(case.name, case.kind, passed, expected, f"{status} {kind or ''}".strip(), str(message))


def _expectation(case: Case) -> str:
    if case.expected_error is not None:
        return f"{case.expected_error.status} {case.expected_error.kind or ''}".strip()
    return f"reward {case.expected_reward:g}"


def _reward(reply: Answered) -> float | None:
    reward = reply.body.get("reward") if isinstance(reply.body, dict) else None
    return reward if isinstance(reward, float) else None


def _short(value: Any) -> str:
    text = orjson.dumps(value, default=str).decode()
    return text if len(text) <= 120 else f"{text[:120]}…"


def main(folder: Path, out: Path, spec: Mapping[str, Any]) -> int:
    app = load_app(folder / "app.py")
    if not isinstance(app, ServerApp):
        raise UserError(f"{folder.name}/app.py is not a server of this SDK: its cases cannot be run in process.")
    cases = load_cases(folder / CASES)
    if spec.get("strict"):
        cases = tuple(_in_strict(case) for case in cases if case.oracle)
    asyncio.run(_run_and_write(app, spec, cases, out))
    return 0


async def _run_and_write(app: ServerApp, spec: Mapping[str, Any], cases: Sequence[Case], out: Path) -> None:
    found = await check_examples(app, spec["name"], spec["fields"], Path(spec.get("examples", out)))
    out.with_suffix(ROW_PROBLEMS).write_bytes(orjson.dumps(found))
    log = CaseLog(out, waiting(cases), case_seconds(spec["fields"]))
    outcomes = await run_cases(app, spec["name"], spec["fields"], cases, log.begin)
    log.end(outcomes)
    if any(one.is_silent for one in outcomes):
        os._exit(0)  # a verifier that never ends may have a thread, and Python's end would wait for it


def _in_strict(case: Case) -> Case:
    return case.model_copy(update={"name": f"{case.name} (strict)", "config": {"strict": True, **case.config}})


def start(run: Any, argv: Sequence[str]) -> int:
    """The specification comes by stdin: it may be longer than a command line.

    Ctrl-C ends it where it stands: sandboxes and services are its caller's, and a verifier may be at work in C.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        code: int = run(Path(argv[0]).resolve(), Path(argv[1]).resolve(), orjson.loads(sys.stdin.buffer.read()))
    except GymError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return code


if __name__ == "__main__":
    raise SystemExit(start(main, sys.argv[1:]))
