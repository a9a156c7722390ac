"""What a program does to be let off: it is worth 0, with a reason, and the next answer is worth what it is worth."""

from __future__ import annotations

import base64
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import rows
from app import CodeGen

from gym.runtime.trial_broker import TrialAccess
from gym.server.testing import Caller, running
from gym.server.testing.hostile_programs import HOSTILE
from gym.wire.items import message, response

TESTS = {"unit_tests": {"inputs": ["1\n"], "outputs": ["2\n"]}}


@pytest.fixture(scope="module", params=["subprocess", pytest.param("docker", marks=pytest.mark.docker)])
def access(request: pytest.FixtureRequest, sandbox_broker: Callable[..., TrialAccess]) -> TrialAccess:
    return sandbox_broker(request.param)


@asynccontextmanager
async def serving(access: TrialAccess, **fields: Any) -> AsyncIterator[Caller]:
    settings = {"num_processes": 1, "unit_test_timeout_secs": 0.5, "memory_limit": "256m", **fields}
    app = CodeGen.app(settings, name="code_gen", **access.settings)
    async with running(app) as url, Caller(url) as caller:
        yield caller


async def graded(caller: Caller, code: str, **changes: Any) -> tuple[int, Any]:
    row = {"responses_create_params": {"input": "?"}, "verifier_metadata": TESTS | changes}
    reply = await caller.post(
        "/verify", row | {"response": response([message(f"```python\n{code}\n```")], model="test")}
    )
    return reply.status, reply.body


async def test_whatever_a_program_does_to_be_let_off_is_worth_nothing(access: TrialAccess) -> None:
    image = {"sandbox_image": "python:3.13-slim"}
    async with serving(access, **image) as caller:
        for name, code in HOSTILE.items():
            status, body = await graded(caller, code)
            assert (status, body.get("reward"), bool(body.get("reason"))) == (200, 0.0, True), (name, body)
        assert (await graded(caller, "print(int(input()) + 1)"))[1]["reward"] == 1.0


async def test_a_value_that_is_not_text_is_worth_nothing(access: TrialAccess) -> None:
    async with serving(access, sandbox_image="python:3.13-slim") as caller:
        tests = {"unit_tests": {"inputs": ["1"], "outputs": ['"x"'], "fn_name": "f"}}
        for code in ("def f(a): return '\\ud800'", "def f(a): return ['\\udcff', {'\\ud800': 1}]"):
            status, body = await graded(caller, code, **tests)
            assert (status, body["reward"], bool(body["reason"])) == (200, 0.0, True), body


async def test_a_package_that_the_sandbox_lacks_is_a_failure_and_not_the_answers(
    access: TrialAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the source and by what the place said before: not by what the program says."""
    monkeypatch.setattr("gym.sandbox.short_programs.PACKAGES", ("no_such_package",))
    async with serving(access, sandbox_image="python:3.13-slim") as caller:
        status, body = await graded(caller, "from no_such_package.deep import x\nprint(2)")
        assert (status, body["error"]["kind"], body["error"]["retryable"]) == (500, "sandbox", False)
        assert "imports no_such_package" in body["error"]["message"]
        for code in (
            "raise ModuleNotFoundError(\"No module named 'no_such_package'\")",
            "text = 'import no_such_package'\nprint(text)",
            "try:\n    import no_such_package\nexcept ImportError:\n    print(3)",
            "import no_such_module_at_all",
        ):
            status, body = await graded(caller, code)
            assert (status, body["reward"]) == (200, 0.0), (code, body)
        right = "try:\n    import no_such_package\nexcept ImportError:\n    print(2)"
        assert (await graded(caller, right))[1]["reward"] == 1.0


def test_packed_tests_that_unfold_beyond_all_measure_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_UNPACKED", 1 << 20)
    packed = base64.b64encode(zlib.compress(b'{"inputs": ["' + b"1" * (64 << 20) + b'"], "outputs": ["2"]}')).decode()
    with pytest.raises(ValueError, match="not a base64 of zlib of JSON"):
        rows.UnitTests.model_validate({"packed": packed})
