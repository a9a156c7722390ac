"""The conformance suite: real providers pass it, and a provider that is wrong does not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gym.broker.conformance import (
    BEHAVIOURS,
    Behaviour,
    BehaviourResult,
    Harness,
    SandboxUnderTest,
    Skipped,
    make_factory,
    run_suite,
)
from gym.broker.conformance import suite as suites
from gym.broker.conformance.suite import run_one
from gym.broker.provider import Abilities
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest, ExecResult, Output, SandboxSpec
from tests.support.sandbox_local import make_provider

ALL = Abilities(True, True, ("none",), True, True, True)
NONE = Abilities(False, False, ("none",), False, False, False)


def test_there_are_behaviours_enough_each_with_a_sentence_of_its_own() -> None:
    assert len(BEHAVIOURS) >= 60
    assert len({behaviour.name for behaviour in BEHAVIOURS}) == len(BEHAVIOURS)
    assert all(not behaviour.name.endswith(".") for behaviour in BEHAVIOURS)


@pytest.mark.parametrize("provider_name", ["subprocess", "bubblewrap"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: one.run.__name__)
async def test_a_local_provider_shows(tmp_path: Path, provider_name: str, behaviour: Behaviour) -> None:
    provider = make_provider(provider_name, tmp_path)
    await provider.open()
    factory = make_factory(provider, "stack")
    (outcome,) = await run_suite(factory, provider.abilities, behaviours=[behaviour], flood=1_000_000_000)
    await provider.close()
    assert not list(tmp_path.glob("*/sandboxes/*"))
    if outcome.state == "skipped":
        pytest.skip(outcome.why)
    assert outcome.state == "passed", outcome.why


class Liar:
    """Says of every command that it went well, and of every file that it is empty."""

    async def exec(self, request: ExecRequest, on_output: object = None) -> ExecResult:
        return ExecResult(exit_code=0, stdout=Output(head=b"0\n"), seconds=0.0)

    async def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        return b""

    async def remove(self) -> None:
        """Nothing is there."""

    def __getattr__(self, name: str) -> object:
        async def nothing(*args: object, **more: object) -> Liar:
            return self

        return nothing


async def make_liar(spec: SandboxSpec) -> SandboxUnderTest:
    return Liar()  # type: ignore[return-value]  # fits by __getattr__


async def test_a_provider_that_lies_passes_next_to_nothing() -> None:
    async def soon(behaviour: Behaviour) -> BehaviourResult:
        harness = Harness(make_liar, ALL, "host")
        try:
            async with asyncio.timeout(0.5):
                return await run_one(harness, behaviour)
        except TimeoutError:
            return BehaviourResult(behaviour.name, "failed", "hangs", 0.5)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(soon(behaviour)) for behaviour in BEHAVIOURS]
    passed = [task.result().name for task in tasks if task.result().state == "passed"]
    assert len(passed) <= 15, passed


def behaviour_that(error: Exception | None, *needs: suites.Need) -> Behaviour:
    async def run(harness: Harness) -> None:
        if error is not None:
            raise error

    return Behaviour(f"one with {error!r} and {needs}", run, needs)


async def test_every_ending_has_its_word() -> None:
    reported: list[BehaviourResult] = []
    behaviours = [
        behaviour_that(None),
        behaviour_that(AssertionError("found 1, wanted 2")),
        behaviour_that(RolloutError("sandbox", "lost")),
        behaviour_that(KeyError("bug")),
        behaviour_that(Skipped("no such program")),
        behaviour_that(None, "forks"),
    ]
    outcomes = await run_suite(make_liar, NONE, reported.append, behaviours=behaviours)
    assert tuple(reported) == outcomes
    assert [(outcome.state, outcome.why) for outcome in outcomes] == [
        ("passed", ""),
        ("failed", "found 1, wanted 2"),
        ("failed", "lost"),
        ("failed", "KeyError: 'bug'"),
        ("skipped", "no such program"),
        ("skipped", "the provider says that it has no `forks`"),
    ]


async def test_a_behaviour_that_hangs_fails_and_the_next_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "DEADLINE", 0.05)

    async def hang(harness: Harness) -> None:
        await asyncio.Event().wait()

    outcomes = await run_suite(make_liar, ALL, behaviours=[Behaviour("hangs", hang, ()), behaviour_that(None)])
    assert [(outcome.state, outcome.why) for outcome in outcomes] == [
        ("failed", "nothing after 0.05 s"),
        ("passed", ""),
    ]


async def test_what_a_behaviour_made_is_removed_and_the_shared_one_is_replaced_after_a_failure() -> None:
    made: list[Counted] = []

    class Counted(Liar):
        removed = 0

        async def remove(self) -> None:
            self.removed += 1

    async def make(spec: SandboxSpec) -> SandboxUnderTest:
        made.append(Counted())
        return made[-1]  # type: ignore[return-value]  # fits by __getattr__

    async def use(harness: Harness) -> None:
        await harness.sandbox()

    async def use_and_fail(harness: Harness) -> None:
        await harness.sandbox()
        await harness.fresh()
        raise AssertionError("bad")

    order = [Behaviour(str(i), run, ()) for i, run in enumerate((use, use_and_fail, use))]
    await run_suite(make, ALL, behaviours=order)
    assert [one.removed for one in made] == [1, 1, 1]
