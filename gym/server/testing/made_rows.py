"""What the rows of a generator have to hold, for its tests."""

from __future__ import annotations

import sys
from itertools import pairwise

from gym.server import ServerApp
from gym.server.generating import Generator, Made, Proof, generate, prove_difficulties


def check_repeatable(generator: Generator, difficulty: str, count: int = 50) -> list[Made]:
    """The rows, which the same seed makes once more; the validation split shares no task with them."""
    rows, same = ([*generate(generator, count, seed=5, split="train", difficulty=difficulty)] for _ in range(2))
    assert [one.row for one in rows] == [one.row for one in same]
    held_out = generate(generator, count, seed=6, split="validation", difficulty=difficulty)
    assert not {one.key for one in rows} & {one.key for one in held_out}
    return rows


async def check_paid(
    app: ServerApp,
    generator: Generator,
    count: int,
    *,
    strict: bool | None = None,
    steps: bool = False,
    grows: bool = False,
) -> dict[str, Proof]:
    """At every difficulty the solution of each row is paid in full, and an empty answer is not paid.

    `strict` is for servers with that field. `grows`: prompts get longer from one difficulty to the next.
    """
    fields = {} if strict is None else {"strict": strict}
    proofs = await prove_difficulties(app, generator, count, fields=fields, steps=steps)
    for difficulty, proof in proofs.items():
        sys.stdout.write(f"{difficulty}: {proof}\n")
    assert all(proof.holds and proof.rows == count for proof in proofs.values()), proofs
    assert not grows or all(small.mean_length < large.mean_length for small, large in pairwise(proofs.values())), proofs
    return proofs
