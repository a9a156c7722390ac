"""nvarc on a real socket, its code in real sandboxes; and as pure functions: which grid or code is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from boards import as_board, read_board, read_code
from candidate import MAX_OUTPUT, Candidates, Ran, read_outcome
from harness import answer
from hypothesis import strategies as st

from gym.errors import UserError
from gym.runtime.trial_broker import TrialAccess
from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.short_programs import ProgramOutcome, Programs
from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Caller, Rows, running
from gym.server.testing.hostile_programs import HOSTILE
from gym.wire.failures import RolloutError
from gym.wire.items import message, response


@pytest.fixture(scope="module")
def access(sandbox_broker: Callable[..., TrialAccess]) -> TrialAccess:
    return sandbox_broker()


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(
    app: ServerApp, rows: Rows, access: TrialAccess, fields: dict[str, Any]
) -> None:
    fuzz_verify(
        app.configured({"python_max_concurrency": 1, **fields}, **access.settings),
        rows,
        texts=["\\boxed{1 2}", "```python\ndef transform(g): return g\n```"],
        values={"agent_mode": st.sampled_from([None, "transductive", "other"])},
    )


@pytest.mark.parametrize(
    ("text", "board", "strictly"),
    [
        ("\\boxed{1 2\n3 4}", [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ("<think>9 9</think>1 2\n\n3 4", [[1, 2], [3, 4]], None),
        ("\\boxed{1 2\n3}", None, None),
        ("\\boxed{[[1, 2], [3, 4]]}", [[1, 2, 3, 4]], [[1, 2], [3, 4]]),
        ("\\boxed{1}\n\\boxed{2}", [[1]], [[2]]),
        ("row 1: 5 x 12 7", [[1, 5, 7]], None),
        ("no digits", None, None),
        ("", None, None),
    ],
)
def test_which_grid_is_read(text: str, board: Any, strictly: Any) -> None:
    assert read_board(text) == board
    assert read_board(text, strict=True) == strictly


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\na\n```\n```python\nb\n```\n```\nc\n```", "b"),
        ("```\nc\n``` and ```\nd\n```", "d"),
        ("```python\nnever closed", None),
        ("<think>```python\na\n```</think> def transform(g): return g", "def transform(g): return g"),
        ("words", None),
    ],
)
def test_which_code_is_read(text: str, code: str | None) -> None:
    assert read_code(text) == code


@pytest.mark.parametrize(
    ("value", "board"),
    [
        ([[1, 2.0], [True, 0]], [[1, 2], [1, 0]]),
        ([[1], [2, 3]], None),
        ([[]], None),
        ([], None),
        ([[1.5]], None),
        ([["1"]], None),
        ([[10**400]], None),
        ("1", None),
        (None, None),
    ],
)
def test_what_is_a_grid(value: Any, board: Any) -> None:
    assert as_board(value) == board


def transform(body: str) -> str:
    return f"def transform(grid):\n    {body}"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise ValueError('no')", ValueError),
        ("import subprocess", ImportError),
        ("from os import listdir", ImportError),
        ("open('/etc/passwd')", NameError),
        ("exit()", NameError),
        ("raise SystemExit(0)", SystemExit),
        ("return transform(grid)", RecursionError),
    ],
)
def test_what_a_transform_may_not_do_is_reported(body: str, error: type[BaseException]) -> None:
    with pytest.raises(error):
        answer(transform(body), [[1]])


def test_code_without_a_transform_answers_nothing() -> None:
    with pytest.raises(NameError, match="no transform function"):
        answer("def solve(grid): return grid", [[1]])


def test_what_looks_like_a_list_is_one() -> None:
    class Array:
        def __init__(self, value: Any) -> None:
            self.value = value

        def tolist(self) -> Any:
            return self.value

    class Tensor(Array):
        def detach(self) -> Tensor:
            return self

        def cpu(self) -> Array:
            return Array(self.value)

    code = transform("return grid")
    for given in (((1, 2), [3, 4]), Array([(1, 2), (3, 4)]), [Array([1, 2]), Array([3, 4])], Tensor([[1, 2], [3, 4]])):
        assert answer(code, given) == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("outcome", "ran"),
    [
        (ProgramOutcome("ok", value="[[1]]"), Ran([[1]])),
        (ProgramOutcome("ok", value="[["), Ran(None, "transform returned no JSON value")),
        (ProgramOutcome("ok", value="9" * 5000), Ran(None, "transform returned no JSON value")),
        (
            ProgramOutcome("ok", error="its reply is not a JSON value: a set"),
            Ran(None, "its reply is not a JSON value: a set"),
        ),
        (ProgramOutcome("error", error="ValueError('no')"), Ran(None, "ValueError('no')")),
        (
            ProgramOutcome("broken", error="it ended the process that runs it: x"),
            Ran(None, "it ended the process that runs it: x"),
        ),
        (ProgramOutcome("time"), Ran(None, "transform took more than 5 s of CPU time, or slept as long")),
        (ProgramOutcome("output"), Ran(None, "transform returned or printed too much")),
    ],
)
def test_an_outcome_is_a_value_or_a_reason(outcome: ProgramOutcome, ran: Ran) -> None:
    assert read_outcome(outcome, 5) == ran


def test_a_machine_that_gave_no_time_is_not_the_codes_fault() -> None:
    with pytest.raises(RolloutError, match="too little of the machine") as caught:
        read_outcome(ProgramOutcome("wall", cpu=0.1, seconds=99), 5)
    assert caught.value.kind == "timeout"


@pytest.fixture
async def candidates(access: TrialAccess) -> AsyncIterator[Candidates]:
    async with Sandboxes(access.url, access.token) as sandboxes:
        found = Candidates(Programs(sandboxes, image="python:3.13-slim", max_sandboxes=1), seconds=2, memory=1 << 30)
        yield found
        await found.aclose()


async def test_what_code_does_in_its_sandbox_is_its_own(candidates: Candidates) -> None:
    for code, ran in (
        (transform("return [row[::-1] for row in grid]"), ([[2, 1]], "")),
        ("print('{\"value\": [[9]]}')\n" + transform("print('x' * 100)\n    return [[7]]"), ([[7]], "")),
        ("class Solution: pass\n" + transform("return [[8]]"), ([[8]], "")),
        (transform(f"return [[0] * {MAX_OUTPUT}]"), (None, "transform returned or printed too much")),
        (transform("while True: pass"), (None, "transform took more than 2 s of CPU time, or slept as long")),
        (transform("import sys\n    sys.modules['os']._exit(0)"), (None, "it left before its end")),
    ):
        assert await candidates.run(code, [[1, 2]]) == ran
    assert "not a JSON value" in (await candidates.run(transform("return {1, 2}"), [[1]])).error


async def test_code_sees_no_secret_of_the_server(access: TrialAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLICY_API_KEY", "hidden")
    async with Sandboxes(access.url, access.token) as sandboxes:
        found = Candidates(Programs(sandboxes, image="python:3.13-slim", max_sandboxes=1), seconds=2, memory=1 << 30)
        names = (await found.run("import sys\n" + transform("return sorted(sys.modules['os'].environ)"), [[1]])).value
        await found.aclose()
    assert "PATH" in names
    assert "POLICY_API_KEY" not in names


async def test_without_a_sandbox_grids_are_read_and_code_is_a_failure(app: ServerApp) -> None:
    async with running(app.configured({}, name="nvarc")) as url, Caller(url) as caller:
        answers = []
        for mode, text in (("transductive", "1 2"), ("inductive", "no code"), ("inductive", transform("return grid"))):
            row = {"responses_create_params": {"input": []}, "expected_output": [[1, 2]], "agent_mode": mode}
            answers.append(await caller.post("/verify", row | {"response": response([message(text)], model="m")}))
    assert [reply.status for reply in answers] == [200, 200, 500]
    assert [reply.body["reward"] for reply in answers[:2]] == [1.0, 0.0]
    assert (answers[2].body["error"]["kind"], answers[2].body["error"]["retryable"]) == ("sandbox", False)


async def test_a_server_for_code_does_not_start_without_a_sandbox(app: ServerApp) -> None:
    app = app.configured({"agent_mode": "inductive"}, name="nvarc")
    with pytest.raises(UserError, match="grants it none"):
        await app.start()


async def test_whatever_code_does_to_be_let_off_is_worth_nothing(app: ServerApp, access: TrialAccess) -> None:
    fields = {"agent_mode": "inductive", "python_max_concurrency": 1, "python_timeout_seconds": 1}
    settings = {**fields, "memory_limit": "256m", "sandbox_image": "python:3.13-slim"}
    app = app.configured(settings, **access.settings)
    row = {"responses_create_params": {"input": "?"}, "test_input": [[1]], "expected_output": [[2]]}
    async with running(app) as url, Caller(url) as caller:
        for name, code in HOSTILE.items():
            reply = await caller.post("/verify", row | {"response": fenced(code)})
            assert (reply.status, reply.body.get("reward"), bool(reply.body.get("reason"))) == (200, 0.0, True), (
                name,
                reply,
            )
        right = "def transform(grid): return [[2]]"
        assert (await caller.post("/verify", row | {"response": fenced(right)})).body["reward"] == 1.0


async def test_a_package_that_the_sandbox_lacks_is_a_failure(
    app: ServerApp, access: TrialAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym.sandbox.short_programs.PACKAGES", ("no_such_package",))
    app = app.configured({"agent_mode": "inductive"}, **access.settings)
    row = {"responses_create_params": {"input": "?"}, "test_input": [[1]], "expected_output": [[2]]}
    code = "import no_such_package\ndef transform(grid): return [[2]]"
    async with running(app) as url, Caller(url) as caller:
        reply = await caller.post("/verify", row | {"response": fenced(code)})
    assert (reply.status, reply.body["error"]["kind"]) == (500, "sandbox")


def fenced(code: str) -> dict[str, Any]:
    return response([message(f"```python\n{code}\n```")], model="test")
