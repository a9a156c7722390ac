"""Rows made by program: any number, by seed, difficulty and split, with the answer that a perfect policy gives.

A server's `generate.py` has a `Generator`; `python generate.py --count 100 --seed 7` writes its rows.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain, islice
from random import Random
from statistics import fmean
from typing import Any, Final, Literal, Protocol

import orjson

from gym.errors import UserError
from gym.server.base import ServerApp
from gym.server.cases import Bench, CaseStep, started
from gym.server.testing import Caller
from gym.wire import items
from gym.wire.json_text import write_json
from gym.wire.rows import PARAMS

Split = Literal["train", "validation", "test"]
SPLITS: Final[tuple[Split, ...]] = ("train", "validation", "test")
HELD_OUT_SHARE: Final = 10  # one key in so many is of the validation split, and one of the test split
NO_MORE: Final = 4  # the exit code of a command that found fewer rows than were asked for
AT_ONCE: Final = 16  # rows that are proven side by side
TRIES: Final = 2_000  # rows in a row that could not be used: then the generator has no more of them


@dataclass(frozen=True)
class Made:
    """A row, and how a perfect policy solves it: its tool calls, then its last text."""

    row: dict[str, Any]
    answer: str = ""
    steps: tuple[CaseStep, ...] = ()
    key: str = ""  # rows with the same key are the same task; what is asked where there is none

    @property
    def digest(self) -> bytes:
        key = self.key.encode() if self.key else orjson.dumps(self.row.get(PARAMS), option=orjson.OPT_SORT_KEYS)
        return hashlib.blake2b(key, digest_size=8).digest()

    @property
    def split(self) -> Split:
        place = int.from_bytes(self.digest, "big") % HELD_OUT_SHARE
        return "validation" if place == 0 else "test" if place == 1 else "train"


class NoMoreRows(UserError):
    """There are fewer different rows than were asked for; those that were made are good."""


class Generator(Protocol):
    """What a server's `generate.py` gives. With `tasks`, their names, `make` takes one of them as a third argument."""

    @property
    def licence(self) -> str:
        """Of the rows."""

    @property
    def difficulties(self) -> tuple[str, ...]:
        """The easiest first."""

    def make(self, random: Random, difficulty: str) -> Made: ...


def make_row(name: str, key: str, asked: str | list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A row with the fields that all example rows of the environment `name` have; the uuid comes from the key."""
    params = {"input": [{"role": "user", "content": asked}] if isinstance(asked, str) else asked}
    agent = {"type": "responses_api_agents", "name": f"{name}_simple_agent"}
    uuid = f"{name}-{Made({}, key=key).digest.hex()}"
    return {PARAMS: params, "uuid": uuid, **fields, "agent_ref": agent}


def generate(
    generator: Generator, count: int, *, seed: int, split: Split, difficulty: str, tasks: Sequence[str] = ()
) -> Iterator[Made]:
    """`count` different rows, the same for the same arguments. A row's split hangs on its key alone, never on the seed:
    rows for training and for validation cannot overlap.
    """
    if difficulty not in generator.difficulties:
        raise UserError(f"no difficulty {difficulty!r}: it knows {', '.join(generator.difficulties)}")
    if unknown := [one for one in tasks if one not in tasks_of(generator)]:
        close = get_close_matches(unknown[0], tasks_of(generator), n=3)
        raise UserError(f"there is no task {unknown[0]!r}" + (f": {', '.join(close)}?" if close else ""))
    random = Random(f"{seed}:{split}:{difficulty}")
    make: Callable[..., Made] = generator.make
    seen: set[bytes] = set()
    unused = 0
    while len(seen) < count:
        made = make(random, difficulty, random.choice(tasks)) if tasks else make(random, difficulty)
        if made.split != split or made.digest in seen:
            unused += 1
            if unused == TRIES:
                raise NoMoreRows(f"only {len(seen)} different rows of difficulty {difficulty} were found")
            continue
        unused = 0
        seen.add(made.digest)
        yield made


def tasks_of(generator: Generator) -> tuple[str, ...]:
    """The names of what it can make rows of, where it makes several things."""
    return tuple(getattr(generator, "tasks", ()))


@dataclass
class Proof:
    """What the verifier says to made rows."""

    rows: int = 0
    unpaid: list[str] = field(default_factory=list)  # rows whose own solution is not worth 1
    paid_empty: list[str] = field(default_factory=list)  # rows that pay for an answer without a word
    torn: list[str] = field(default_factory=list)  # rows that ask what another asks, under another key: in any split
    lengths: list[int] = field(default_factory=list)  # characters of the prompts
    keys: dict[bytes, bytes] = field(default_factory=dict, repr=False)  # what is asked -> the key it is asked under

    def note(self, made: Made, solved: Any, empty: Any) -> None:
        self.rows += 1
        self.lengths.append(_prompt_length(made.row))
        row = write_json(made.row).decode()[:500]
        apart = self.keys.setdefault(Made(made.row).digest, made.digest) != made.digest
        self.torn += [row] if apart else []
        self.unpaid += [f"{solved}: {row}"] if solved != 1.0 else []
        self.paid_empty += [f"{empty}: {row}"] if empty != 0.0 else []

    @property
    def mean_length(self) -> float:
        return fmean(self.lengths) if self.lengths else 0.0

    def __str__(self) -> str:
        found = f"{self.rows} rows of {self.mean_length:.0f} characters, {len(self.unpaid)} solutions not paid"
        torn = f", {len(self.torn)} asked under two keys" if self.torn else ""
        return f"{found}, {len(self.paid_empty)} empty answers paid{torn}"

    @property
    def holds(self) -> bool:
        return self.rows > 0 and not self.unpaid and not self.paid_empty and not self.torn


async def prove(
    app: ServerApp, made: Iterable[Made], *, fields: Mapping[str, Any] | None = None, steps: bool = True
) -> Proof:
    """Has the real app verify each row over HTTP, solved and with an empty answer.

    `steps`: whether the tools are called, each row in a session of its own; a verifier that reads the reply alone
    needs none.
    """
    proof = Proof()
    async with started(app, "generated", fields or {}) as bench, Caller(bench.url) as shared:
        caller = None if steps else shared
        rows = iter(made)
        while batch := list(islice(rows, AT_ONCE)):
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(_judge(bench, one, caller)) for one in batch]
            for one, task in zip(batch, asked, strict=True):
                proof.note(one, *task.result())
    return proof


async def prove_difficulties(
    app: ServerApp, generator: Generator, count: int, *, fields: Mapping[str, Any] | None = None, steps: bool = False
) -> dict[str, Proof]:
    """`count` rows of each difficulty, a tenth of them of the validation split and a tenth of the test split."""
    held_out = -(-count // HELD_OUT_SHARE)
    counts: dict[Split, int] = {"train": count - 2 * held_out, "validation": held_out, "test": held_out}
    proofs = {}
    for difficulty in generator.difficulties:
        made = (
            generate(generator, number, seed=1, split=split, difficulty=difficulty) for split, number in counts.items()
        )
        proofs[difficulty] = await prove(app, chain.from_iterable(made), fields=fields, steps=steps)
    return proofs


async def _judge(bench: Bench, made: Made, shared: Caller | None) -> tuple[Any, Any]:
    """What the solution is worth, and an empty answer."""
    return await _reward(bench, made, shared, solved=True), await _reward(bench, made, shared, solved=False)


async def _reward(bench: Bench, made: Made, shared: Caller | None, *, solved: bool) -> Any:
    async with _session(bench, made, shared) as caller:
        output: list[dict[str, Any]] = []
        for number, step in enumerate(made.steps if solved else ()):
            call_id = f"call_{number}"
            output.append(items.function_call(step.tool, orjson.dumps(step.arguments).decode(), call_id=call_id))
            said = step.output if shared else (await caller.post(f"/{step.tool}", step.arguments)).body
            text = said if isinstance(said, str) else orjson.dumps(said).decode()
            output.append(items.function_call_output(call_id, text))
        output.append(items.message(made.answer if solved else ""))
        reply = await caller.post("/verify", {**made.row, "response": items.response(output, model="generated")})
    return reply.body.get("reward", reply.body) if isinstance(reply.body, dict) else reply.body


@asynccontextmanager
async def _session(bench: Bench, made: Made, shared: Caller | None) -> AsyncIterator[Caller]:
    """A rollout of its own, or (`shared`) a verify without one."""
    if shared:
        shared.cookies.clear()
        yield shared
        return
    async with Caller(bench.url) as caller:
        await caller.post("/seed_session", made.row)
        yield caller


def _prompt_length(row: Mapping[str, Any]) -> int:
    asked = row[PARAMS]["input"]
    return len(asked) if isinstance(asked, str) else sum(len(items.item_text(one)) for one in asked)


def main(generator: Generator, argv: list[str] | None = None) -> int:
    """The command of every `generate.py`: rows as JSONL on stdout."""
    parser = argparse.ArgumentParser(description=f"Makes rows, {generator.licence}.")
    parser.add_argument("--count", "--rows", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", choices=SPLITS, default="train")
    parser.add_argument("--difficulty", choices=generator.difficulties, default=generator.difficulties[0])
    parser.add_argument("--task", action="append", default=[], metavar="TASK", help="any of these; else of all")
    parser.add_argument("--describe", action="store_true", help="print what it can make, as JSON")
    asked = parser.parse_args(argv)
    if asked.describe:
        can = {"licence": generator.licence, "difficulties": generator.difficulties, "splits": SPLITS}
        can |= {"tasks": tasks} if (tasks := tasks_of(generator)) else {}
        sys.stdout.buffer.write(orjson.dumps(can) + b"\n")
        return 0
    try:
        place = {"seed": asked.seed, "split": asked.split, "difficulty": asked.difficulty}
        for made in generate(generator, asked.count, **place, tasks=asked.task):
            sys.stdout.buffer.write(write_json(made.row) + b"\n")
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return NO_MORE if isinstance(error, NoMoreRows) else 1
    return 0
