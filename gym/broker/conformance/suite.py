"""Runs behaviours one after another and says of each: passed, failed with what was found, or skipped with why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Literal, NamedTuple

from gym.broker.conformance import (
    command_checks,
    file_checks,
    isolation_checks,
    job_checks,
    lifetime_checks,
    output_checks,
    program_checks,
    termination_checks,
)
from gym.broker.conformance.harness import Factory, Harness, Skipped
from gym.broker.provider import Abilities
from gym.errors import GymError

DEADLINE: Final = 600.0  # of one behaviour; a provider that hangs fails it
Need = Literal["isolates", "forks", "limits", "users"]


class Behaviour(NamedTuple):
    name: str  # a sentence
    run: Callable[[Harness], Awaitable[None]]
    needs: tuple[Need, ...]


class BehaviourResult(NamedTuple):
    name: str
    state: Literal["passed", "failed", "skipped"]
    why: str
    seconds: float


NEEDS: Final[tuple[tuple[object, tuple[Need, ...]], ...]] = (
    (command_checks, ()),
    (output_checks, ()),
    (termination_checks, ()),
    (job_checks, ()),
    (file_checks, ()),
    (lifetime_checks, ()),
    (program_checks, ()),
    (isolation_checks, ("isolates",)),
)


def collect_behaviours() -> tuple[Behaviour, ...]:
    """Every coroutine of the modules above that has a docstring: its first line is the behaviour's sentence."""
    found = []
    for module, needs in NEEDS:
        for run in vars(module).values():
            here = asyncio.iscoroutinefunction(run) and run.__module__ == getattr(module, "__name__", "")
            if here and run.__doc__ and not run.__name__.startswith("_"):
                more: tuple[Need, ...] = getattr(run, "requires", ())
                found.append(Behaviour(run.__doc__.strip().splitlines()[0], run, (*needs, *more)))
    return tuple(found)


BEHAVIOURS: Final = collect_behaviours()


async def run_suite(
    factory: Factory,
    abilities: Abilities,
    on_result: Callable[[BehaviourResult], None] | None = None,
    *,
    image: str = "host",
    behaviours: Iterable[Behaviour] = BEHAVIOURS,
    flood: int = 10_000_000_000,
) -> tuple[BehaviourResult, ...]:
    harness = Harness(factory, abilities, image, flood)
    outcomes = []
    try:
        for behaviour in behaviours:
            outcome = await run_one(harness, behaviour)
            outcomes.append(outcome)
            if on_result:
                on_result(outcome)
    finally:
        await asyncio.shield(harness.clear(shared=True))
    return tuple(outcomes)


async def run_one(harness: Harness, behaviour: Behaviour) -> BehaviourResult:
    missing = [need for need in behaviour.needs if not getattr(harness.abilities, need)]
    if missing:
        return BehaviourResult(behaviour.name, "skipped", f"the provider says that it has no `{missing[0]}`", 0.0)
    began = time.monotonic()
    state: Literal["passed", "failed", "skipped"] = "passed"
    why = ""
    try:
        async with asyncio.timeout(DEADLINE):
            await behaviour.run(harness)
    except Skipped as reason:
        state, why = "skipped", str(reason)
    except TimeoutError:
        state, why = "failed", f"nothing after {DEADLINE:g} s"
    except (AssertionError, GymError) as error:
        state, why = "failed", str(error)
    except Exception as error:  # noqa: BLE001 (a behaviour that breaks is a finding; the others go on)
        state, why = "failed", f"{type(error).__name__}: {error}"
    await harness.clear(shared=state == "failed")
    return BehaviourResult(behaviour.name, state, why, time.monotonic() - began)
