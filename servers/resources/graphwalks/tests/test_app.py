"""graphwalks on a real socket, and as pure functions: which nodes are read, and how well they agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from node_lists import f1_score, read_nodes

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Caller, Rows, running
from gym.wire.items import message, response


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured(fields),
        rows,
        texts=["Final Answer: []", 'Final Answer: ["a"]'],
        values={"expected_answer": st.sampled_from(["[]", "[1]", "{}", "null", "[null]", "[true]"])},
    )


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("Final Answer: [a, b]", ["a", "b"]),
        ("x\nso Final Answer:[a,, b ,] it is\n \n", ["a", "b"]),
        ("Final Answer: []", []),
        ("Final Answer: [a] and [b]", ["a] and [b"]),
        ("Final Answer: [a]\nmore", None),
        ("Final Answer: a", None),
        ("final answer: [a]", None),
        ("] Final Answer: [a", None),
        ("", None),
    ],
)
def test_which_nodes_are_read(text: str, nodes: list[str] | None) -> None:
    assert read_nodes(text) == nodes


@pytest.mark.parametrize(
    ("predicted", "expected", "f1"),
    [("", "", 1.0), ("a", "", 0.0), ("", "a", 0.0), ("ab", "ab", 1.0), ("abc", "ab", 0.8), ("c", "ab", 0.0)],
)
def test_how_well_two_sets_agree(predicted: str, expected: str, f1: float) -> None:
    assert f1_score(set(predicted), set(expected)) == pytest.approx(f1)


@pytest.mark.parametrize("expected", ['["1", "2"]', "[1, 2]"])
async def test_nodes_may_be_numbers(app: ServerApp, rows: Rows, expected: str) -> None:
    body = rows[0] | {"expected_answer": expected, "response": response([message("Final Answer: [2, 1]")], model="m")}
    async with running(app) as url, Caller(url) as caller:
        reply = (await caller.post("/verify", body)).body
    assert reply["reward"] == 1.0
    assert reply["expected_answer"] == expected


async def test_metrics_are_given_for_each_type(app: ServerApp) -> None:
    replies = [{"_ng_task_index": 0, "reward": 0.5, "problem_type": "bfs"}]
    async with running(app) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
    assert metrics["problem_type=bfs/pass@1/accuracy"] == 50.0
