"""math_with_code on a real socket, its interpreters in real sandboxes."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from app import MathWithCode
from hypothesis import given, settings
from hypothesis import strategies as st
from session import Limits, Session

from gym.runtime.trial_broker import TrialAccess
from gym.sandbox.broker_client import SandboxEnded, Sandboxes
from gym.sandbox.pipe import Pipe
from gym.sandbox.python_sandboxes import PythonSandboxes, source_of
from gym.sandbox.sandbox_handle import Sandbox
from gym.server.testing import Caller, Rows, running
from gym.wire.items import message, response

ROW = {"responses_create_params": {"input": "?"}, "expected_result": "42"}


@pytest.fixture(scope="module")
def access(sandbox_broker: Callable[..., TrialAccess]) -> TrialAccess:
    return sandbox_broker()


@asynccontextmanager
async def serving(access: TrialAccess, **fields: Any) -> AsyncIterator[Caller]:
    app = MathWithCode.app(fields, name="math_with_code", **access.settings)
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        yield caller


async def execute(caller: Caller, code: str) -> dict[str, Any]:
    reply = await caller.post("/execute_python", {"code": code})
    assert reply.status == 200, reply.body
    found: dict[str, Any] = reply.body
    return found


async def reward(access: TrialAccess, text: str, **changes: Any) -> tuple[float, str | None]:
    async with serving(access) as caller:
        reply = await caller.post("/verify", ROW | changes | {"response": response([message(text)], model="test")})
    return reply.body["reward"], reply.body["extracted_answer"]


async def test_variables_functions_and_imports_stay(access: TrialAccess) -> None:
    async with serving(access) as caller:
        reply = await execute(caller, "import math\nx = 5\nx + 10")
        assert reply == {"success": True, "stdout": "", "stderr": "", "error_message": None, "result": "15"}
        await execute(caller, "def fact(n):\n    return 1 if n < 2 else n * fact(n - 1)")
        assert (await execute(caller, "fact(5) + math.floor(x / 2)"))["result"] == "122"


async def test_sessions_know_nothing_of_each_other(access: TrialAccess) -> None:
    async with serving(access) as one, serving(access) as other:
        await execute(one, "x = 1\nopen('left', 'w').write('x')")
        assert (await execute(other, "x"))["error_message"] == "name 'x' is not defined"
        assert (await execute(other, "import os\nos.path.exists('left')"))["result"] == "False"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("1/0", "division by zero"),
        ("while True: pass", "code timed-out"),
        ("def f(:", "invalid syntax"),
        ("'a' * 10**11", "MemoryError"),
        ("print('a' * 2 * 10**7)", "File too large"),
        ("exit()", "SystemExit"),
        ("import sys; sys.stdout.close()", "closed file"),
        ("import os; os.close(1); print(5)", ""),
    ],
)
async def test_an_error_is_reported_and_the_state_stays(access: TrialAccess, code: str, error: str) -> None:
    async with serving(access, max_execution_time=0.5) as caller:
        await execute(caller, "kept = 7")
        reply = await execute(caller, code)
        assert reply["success"] is False
        assert error in reply["error_message"]
        assert (await execute(caller, "kept"))["result"] == "7"


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(1)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os; os.closerange(64, 256)",
    ],
)
async def test_an_interpreter_that_ended_is_replaced_and_says_so(access: TrialAccess, code: str) -> None:
    async with serving(access) as caller:
        await execute(caller, "kept = 7")
        reply = await execute(caller, code)
        assert reply["success"] is False
        assert "the variables are gone" in reply["error_message"]
        assert (await execute(caller, "kept"))["error_message"] == "name 'kept' is not defined"


async def test_code_that_ended_its_sandbox_is_reported_and_the_next_begins_in_another(
    access: TrialAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ended(_: Pipe) -> bytes:
        raise SandboxEnded("it needed more than its memory")

    async with serving(access) as caller:
        await execute(caller, "kept = 7")
        with monkeypatch.context() as patch:
            patch.setattr(Pipe, "read", ended)
            reply = await execute(caller, "kept")
        assert reply["success"] is False
        assert "the code ended its sandbox (it needed more than its memory)" in reply["error_message"]
        assert (await execute(caller, "kept"))["error_message"] == "name 'kept' is not defined"


async def test_what_a_call_forked_answers_nothing(access: TrialAccess) -> None:
    async with serving(access) as caller:
        reply = await execute(caller, "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\npid > 0")
        assert reply["result"] == "True"
        assert (await execute(caller, "5"))["result"] == "5"


async def test_output_is_cut_in_its_middle_and_the_commands_own_comes_too(access: TrialAccess) -> None:
    async with serving(access, max_output=1000) as caller:
        reply = await execute(caller, "print('a' * 5000 + 'end')\nimport subprocess\nsubprocess.run(['echo', 'sub'])")
        assert "bytes cut" in reply["stdout"]
        assert reply["stdout"].startswith("aaa")
        assert reply["stdout"].endswith("end\nsub\n")
        assert len(reply["stdout"]) < 1100


@pytest.mark.parametrize(
    "code",
    [
        "'\\ud800'",
        "raise ValueError('\\ud800\\udcff')",
        "print('\\ud800')",
        "import os; os.write(1, bytes(range(256)))",
        "import sys; sys.stderr.buffer.write(bytes([255]))",
    ],
)
async def test_what_is_not_text_is_shown_as_text(access: TrialAccess, code: str) -> None:
    async with serving(access) as caller:
        reply = await execute(caller, code)
        assert "".join(str(one) for one in reply.values()).encode()
        assert (await execute(caller, "1 + 1"))["result"] == "2"


async def test_a_package_that_is_promised_and_missing_is_a_failure(
    access: TrialAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("session.PACKAGES", ("no_such_package",))
    async with serving(access, sandbox_image="python:3.13-slim") as caller:
        reply = await caller.post("/execute_python", {"code": "import no_such_package"})
        assert (reply.status, reply.body["error"]["kind"]) == (500, "sandbox")
        assert "imports no_such_package" in reply.body["error"]["message"]
        raised = await execute(caller, "raise ModuleNotFoundError(\"No module named 'no_such_package'\")")
        assert raised["success"] is False


async def test_the_end_of_a_session_removes_its_sandbox(access: TrialAccess) -> None:
    async with Sandboxes(*access) as sandboxes, serving(access) as caller:
        await execute(caller, "x = 1")
        assert len(await sandboxes.alive()) == 1
        ended = await caller.post("/end_session", {})
        assert ended.body == {"success": True, "stdout": "", "stderr": "", "error_message": None, "result": None}
        assert await sandboxes.alive() == ()
        await execute(caller, "x = 1")
        await caller.post("/verify", ROW | {"response": response([message("none")], model="test")})
        assert await sandboxes.alive() == ()


class ShortLived(PythonSandboxes):
    """Its sandboxes are near their end when they are handed out."""

    async def create(self) -> Sandbox:
        sandbox = await super().create()
        await sandbox.extend(100)
        return sandbox


async def test_a_session_that_is_used_keeps_its_sandbox(access: TrialAccess) -> None:
    async with Sandboxes(*access) as sandboxes:
        session = Session(sandboxes, ShortLived(sandboxes, source_of("", "", Path()), ttl=1000), Limits())
        assert (await session.run("x = 5"))["success"]
        assert (await sandboxes.alive())[0].expires > time.time() + 500
        assert (await session.run("x"))["result"] == "5"
        await session.close()


async def test_a_call_without_code_is_the_models_mistake(access: TrialAccess) -> None:
    async with serving(access) as caller:
        assert (await caller.post("/execute_python", {})).status == 422


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        (r"\boxed{42}", 1.0),
        (r"\boxed{41}, no: \boxed{ 42.0 }", 1.0),
        (r"\boxed{\text{42}}", 1.0),
        (r"\boxed{42.0000001}", 1.0),
        (r"\boxed{42} or \boxed{43}", 0.0),
        (r"\boxed{42} \boxed{4", 0.0),
        (r"\boxed{}", 0.0),
        (r"\boxed{nan}", 0.0),
        ("42", 0.0),
        ("", 0.0),
    ],
)
async def test_the_last_box_is_the_answer(access: TrialAccess, text: str, worth: float) -> None:
    assert (await reward(access, text))[0] == worth


async def test_nested_braces_and_delimiters_are_read(access: TrialAccess) -> None:
    assert await reward(access, r"\boxed{\frac{1}{2}}", expected_result=r"\(\frac{1}{2}\)") == (1.0, r"\frac{1}{2}")
    assert (await reward(access, r"\boxed{a  b}", expected_result="$a b$"))[0] == 1.0


async def test_where_no_message_has_a_box_the_last_tools_output_counts(access: TrialAccess) -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": json.dumps({"stdout": r"\boxed{42}"})}
    async with serving(access) as caller:
        reply = await caller.post("/verify", ROW | {"response": response([output, message("see above")], model="test")})
    assert (reply.body["reward"], reply.body["extracted_answer"]) == (1.0, "42")


@pytest.mark.parametrize("expected", ["", "  ", None, 42])
async def test_a_row_without_an_expected_text_is_refused(access: TrialAccess, expected: Any) -> None:
    async with serving(access) as caller:
        reply = await caller.post(
            "/verify", ROW | {"expected_result": expected, "response": response([message(r"\boxed{}")], model="test")}
        )
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert "expected_result" in reply.body["error"]["message"]


JSON = st.recursive(st.none() | st.booleans() | st.text() | st.integers(), lambda one: st.lists(one, max_size=3))


async def test_no_output_and_no_row_is_a_fault_of_the_server(access: TrialAccess) -> None:
    async with serving(access) as caller:

        @settings(max_examples=1, database=None)
        @given(st.data())
        def choose(data: st.DataObject) -> None:
            for _ in range(60):
                item = {"type": data.draw(st.sampled_from(["message", "function_call_output", "reasoning", "?"]))}
                item |= {"role": "assistant", "content": data.draw(JSON), "output": data.draw(JSON)}
                bodies.append(ROW | {"expected_result": data.draw(JSON), "response": response([item], model="test")})

        bodies: list[dict[str, Any]] = []
        choose()
        for body in bodies:
            assert (await caller.post("/verify", body)).status in (200, 422), body


def test_the_example_rows_name_their_agent(rows: Rows) -> None:
    assert len(rows) == 5
    assert {row["agent_ref"]["name"] for row in rows} == {"math_with_code_simple_agent"}
