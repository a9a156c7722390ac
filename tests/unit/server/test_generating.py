"""Rows made by program: different, the same for the same seed, their splits apart, their solutions proven."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import orjson
import pytest

from gym.errors import UserError
from gym.server import ResourcesServer, VerifyRequest
from gym.server.cases import CaseStep
from gym.server.generating import NO_MORE, Made, NoMoreRows, generate, main, prove, prove_difficulties


class Sums:
    licence = "Apache-2.0"
    difficulties = ("small", "large")

    def make(self, random: Random, difficulty: str) -> Made:
        top = 9 if difficulty == "small" else 10**6
        left, right = random.randint(1, top), random.randint(1, top)
        asked = {"input": [{"role": "user", "content": f"{left} + {right}?"}]}
        row = {"responses_create_params": asked, "expected_answer": str(left + right)}
        return Made(
            row, answer=str(left + right), steps=(CaseStep(tool="add", arguments={"left": left, "right": right}),)
        )


class SumRequest(VerifyRequest):
    expected_answer: str


class SumServer(ResourcesServer[None]):
    async def verify(self, rollout: SumRequest) -> float:
        return float(rollout.output_text == rollout.expected_answer)


class Wrong(Sums):
    def make(self, random: Random, difficulty: str) -> Made:
        made = super().make(random, difficulty)
        return Made(made.row, answer=made.answer + "0")


class TwoKeys(Sums):
    """Asks the same under one key or another, so it may be in two splits."""

    def make(self, random: Random, difficulty: str) -> Made:
        made = super().make(random, difficulty)
        return Made(made.row, answer=made.answer, key=f"{made.row} {random.random()}")


class Huge(Sums):
    def make(self, random: Random, difficulty: str) -> Made:
        made = super().make(random, difficulty)
        return Made({**made.row, "seeded": 10**30 + random.getrandbits(40)}, answer=made.answer, key=made.answer)


def rows(**options: Any) -> list[dict[str, Any]]:
    given: dict[str, Any] = {"count": 300, "seed": 1, "split": "train", "difficulty": "large"}
    return [made.row for made in generate(Sums(), **given | options)]


def test_the_same_seed_makes_the_same_rows_and_another_one_others() -> None:
    assert rows() == rows()
    assert rows() != rows(seed=2)


def test_no_row_comes_twice_and_none_of_validation_is_in_training_whatever_the_seed() -> None:
    train = {json.dumps(row) for seed in range(3) for row in rows(seed=seed, difficulty="small", count=50)}
    validation = {json.dumps(row) for row in rows(seed=9, split="validation", difficulty="small", count=5)}
    assert len({json.dumps(row) for row in rows()}) == 300
    assert train
    assert not train & validation


def test_no_two_splits_share_what_is_asked_though_all_rows_there_are_were_made() -> None:
    made = {}
    for split in ("train", "validation", "test"):
        asked = [orjson.dumps(row["responses_create_params"]) for row in exhaust(Sums(), split)]
        assert len(set(asked)) == len(asked) > 3
        made[split] = set(asked)
    assert sum(map(len, made.values())) == 81
    assert len(set.union(*made.values())) == 81


def exhaust(generator: Sums, split: Any) -> Iterator[dict[str, Any]]:
    with suppress(NoMoreRows):
        for made in generate(generator, 1000, seed=5, split=split, difficulty="small"):
            yield made.row


async def test_a_generator_that_asks_the_same_under_two_keys_is_found() -> None:
    assert all(proof.holds for proof in (await prove_difficulties(SumServer.app({}), Sums(), 20)).values())
    proof = (await prove_difficulties(SumServer.app({}), TwoKeys(), 60))["small"]
    assert not proof.unpaid
    assert proof.torn
    assert not proof.holds
    assert "asked under two keys" in str(proof)


def test_more_rows_than_there_are_is_said_with_how_many_were_found() -> None:
    with pytest.raises(UserError, match=r"only \d\d different rows of difficulty small"):
        rows(difficulty="small", count=82)
    with pytest.raises(UserError, match="it knows small, large"):
        rows(difficulty="huge")


async def test_a_verifier_that_pays_the_solution_and_nothing_else_proves_the_rows() -> None:
    made = list(generate(Sums(), 20, seed=1, split="train", difficulty="small"))
    proof = await prove(SumServer.app({}), made, steps=False)
    assert proof.holds
    assert proof.rows == 20
    assert 6 <= proof.mean_length <= 8


async def test_a_wrong_solution_is_found() -> None:
    made = list(generate(Wrong(), 20, seed=1, split="train", difficulty="small"))
    proof = await prove(SumServer.app({}), made, steps=False)
    assert len(proof.unpaid) == 20
    assert not proof.holds


def test_the_command_writes_rows_and_refuses_in_a_sentence(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(Sums(), ["--count", "3", "--seed", "4", "--difficulty", "large"]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 3
    assert main(Sums(), ["--count", "99"]) == NO_MORE
    assert b"different rows" in capfdbinary.readouterr().err


def test_the_command_says_what_it_can_make(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(Sums(), ["--describe"]) == 0
    assert json.loads(capfdbinary.readouterr().out) == {
        "licence": "Apache-2.0",
        "difficulties": ["small", "large"],
        "splits": ["train", "validation", "test"],
    }


async def test_integers_of_any_size_are_written_and_proven(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(Huge(), ["--count", "3", "--difficulty", "large"]) == 0
    written = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [row["seeded"] // 10**20 for row in written] == [10**10] * 3
    made = generate(Huge(), 3, seed=1, split="train", difficulty="large")
    assert (await prove(SumServer.app({}, name="sums"), made)).holds
