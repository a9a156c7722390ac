"""code_gen on a real socket, its programs in real sandboxes: every shipped case, and how answers are compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from app import CodeGen
from comparing import compare_texts, same_value

from gym.server.testing import Caller, running
from gym.wire.sandbox import Grant
from tests.support.sandbox_programs import Access, broker_process

HERE = Path(__file__).parents[1]
CASES = [json.loads(line) for line in (HERE / "data" / "verifier_cases.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def access() -> Iterator[Access]:
    with broker_process() as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_a_case_is_worth_what_it_says(access: Access, case: dict[str, Any]) -> None:
    fields = {"num_processes": 1, "unit_test_timeout_secs": 2, **case.get("config", {})}
    async with running(CodeGen.app(fields, name="code_gen", **access.settings)) as url, Caller(url) as caller:
        reply = await caller.post("/verify", case["request"])
    if "expected_error" in case:
        assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
        assert "verifier_metadata" in reply.body["error"]["message"]
        return
    assert reply.body["reward"] == case["expected_reward"], reply.body
    for name, value in case.get("expected_fields", {}).items():
        assert reply.body[name] == value
    assert ("reason" in reply.body) == (reply.body["reward"] < 1)


async def test_a_provider_without_images_says_that_it_builds_none_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:3.13-slim\n")
    fields = {"num_processes": 1, "sandbox_build": str(tmp_path)}
    with broker_process(grant=Grant(images=("*",), build=True, warm=0)) as access:
        app = CodeGen.app(fields, name="code_gen", **access.settings)
        async with running(app) as url, Caller(url) as caller:
            reply = await caller.post("/verify", CASES[0]["request"])
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
