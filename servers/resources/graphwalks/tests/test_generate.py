"""Rows of graphwalks made by program: the answer is what another algorithm finds in the prompt."""

from __future__ import annotations

import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from generate import LEVELS, GraphwalksGenerator

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = GraphwalksGenerator()
NODE = r"([0-9a-f]{6}|[a-z]+-[a-z]+)"
FAR = 10**6


def made(count: int, difficulty: str, **options: Any) -> list[Made]:
    return list(generate(GENERATOR, count, **({"seed": 5, "split": "train", "difficulty": difficulty} | options)))


def read(one: Made) -> tuple[list[tuple[str, str]], str, int]:
    """Edges, start and depth from the prompt's text alone; depth 0 asks for the parents."""
    text = one.row["responses_create_params"]["input"][0]["content"]
    listed, _, question = text.rpartition("\n\n")
    edges = re.findall(rf"^(?:edge from |\()?{NODE}(?: -> | => | points to | to |, ){NODE}\)?$", listed, re.MULTILINE)
    assert len(edges) == listed.count("\n")
    depth = re.search(r"exactly (\d+)", question)
    return (
        edges,
        re.findall(rf"(?<![\w-]){NODE}(?=[ ?:.])", question.replace("breadth-first", ""))[0],
        int(depth[1]) if depth else 0,
    )


def solve(edges: list[tuple[str, str]], start: str, depth: int) -> list[str]:
    """Distances by relaxing every edge until nothing changes."""
    if not depth:
        return sorted({begin for begin, end in edges if end == start})
    distance = {start: 0}
    changed = True
    while changed:
        changed = False
        for begin, end in edges:
            far = distance.get(begin, FAR) + 1
            if far < distance.get(end, FAR):
                distance[end], changed = far, True
    return sorted(node for node, far in distance.items() if far == depth)


@pytest.mark.parametrize("difficulty", LEVELS)
def test_another_algorithm_finds_the_same_nodes_in_the_prompt(difficulty: str) -> None:
    for one in made(20 if difficulty == "extreme" else 150, difficulty):
        edges, start, depth = read(one)
        assert len(set(edges)) == len(edges)
        assert solve(edges, start, depth) == json.loads(one.row["expected_answer"])
        assert (one.row["problem_type"] == "bfs") == (depth > 0)


def test_graphs_searches_and_answers_grow_with_the_difficulty() -> None:
    edges, depths, answers = [], [], []
    for difficulty in LEVELS:
        rows = made(60, difficulty)
        read_ = [read(one) for one in rows]
        edges.append(fmean(len(one[0]) for one in read_))
        depths.append(fmean(depth for _, _, depth in read_ if depth))
        answers.append(fmean(len(json.loads(one.row["expected_answer"])) for one in rows))
    sys.stdout.write(f"edges {edges}, depth {depths}, nodes in the answer {answers}\n")
    assert all(small < large for grown in (edges, depths, answers) for small, large in pairwise(grown))
    assert min(answers) >= 1


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 30, strict=strict, grows=True)


def test_the_same_seed_makes_the_same_rows_and_splits_share_no_task() -> None:
    rows = check_repeatable(GENERATOR, "easy")
    assert len({one.row["uuid"] for one in rows}) == 50


@pytest.mark.long
@pytest.mark.parametrize(("strict", "count"), [(False, 10_000), (True, 2_000)])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(strict: bool, count: int) -> None:
    await check_paid(load_app(APP), GENERATOR, count, strict=strict)
