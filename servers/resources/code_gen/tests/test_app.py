"""How code_gen compares what programs print and return, and what a provider without images says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from app import CodeGen
from comparing import compare_texts, same_value

from gym.runtime.trial_broker import TrialAccess
from gym.server.testing import Caller, running
from gym.wire.items import message, response


async def test_a_provider_without_images_says_that_it_builds_none_of_ones_own(
    tmp_path: Path, sandbox_broker: Callable[..., TrialAccess]
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:3.13-slim\n")
    fields = {"num_processes": 1, "sandbox_build": str(tmp_path)}
    row = {
        "responses_create_params": {"input": "?"},
        "verifier_metadata": {"unit_tests": {"inputs": ["1"], "outputs": ["1"]}},
    }
    app = CodeGen.app(fields, name="code_gen", **sandbox_broker(build=True).settings)
    async with running(app) as url, Caller(url) as caller:
        reply = await caller.post(
            "/verify", row | {"response": response([message("```python\nprint(1)\n```")], model="test")}
        )
    assert reply.status == 422
    assert "builds no images" in reply.body["error"]["message"]


@pytest.mark.parametrize(
    ("given", "expected", "plain", "strict"),
    [
        (" 1 2 \n3\n\n", "1 2\n3", True, True),
        ("1.0 2e0", "1 2", True, True),
        ("0.33333333", "0.3333333333", False, True),
        ("10000001", "10000000", False, False),
        ("1", "1\n2", False, False),
        ("nan", "1", False, False),
        ("snan", "1", False, False),
        ("Yes", "yes", False, False),
    ],
)
def test_texts_are_compared_line_by_line(given: str, expected: str, plain: bool, strict: bool) -> None:
    assert (compare_texts(given, expected) == "") is plain
    assert (compare_texts(given, expected, strict=True) == "") is strict


@pytest.mark.parametrize(
    ("given", "expected", "same"),
    [
        ([1, [2]], [1, [2]], True),
        (1.000001, 1, True),
        ("5", 5, True),
        (None, 0, False),
        ([1], 1, False),
        (1e400, 1, False),
    ],
)
def test_values_are_compared_by_what_they_are(given: Any, expected: Any, same: bool) -> None:
    assert same_value(given, expected) is same
