"""How many sandboxes an instance has, counted without a look at each."""

from __future__ import annotations

import random

from gym.broker.provider import Tags
from gym.broker.registry import SandboxEntry, SandboxRegistry
from gym.wire.sandbox import SandboxSpec
from tests.support.sandbox_broker import MemoryEngine, MemoryHeld

SPEC = SandboxSpec(image="task")


def entry(id: str, instance: str) -> SandboxEntry:
    tags = Tags(id, "unit", instance, "owner")
    return SandboxEntry(MemoryHeld(MemoryEngine(), SPEC, tags), tags, SPEC, "memory", 1e9)


def counted_one_by_one(registry: SandboxRegistry, instance: str) -> int:
    return sum(one.instance == instance and one.state != "lost" for one in registry)


async def test_what_is_made_counts_from_its_reservation_to_its_loss_or_end() -> None:
    registry = SandboxRegistry()
    registry.reserve("mcqa")
    assert registry.count("mcqa") == 1
    one = entry("a", "mcqa")
    registry.add(one)
    registry.release("mcqa")
    assert registry.count("mcqa") == 1
    registry.lose(one)
    registry.lose(one)
    assert registry.count("mcqa") == 0
    registry.forget(one, "it was lost")
    registry.forget(one, "it was lost")
    assert registry.count("mcqa") == 0
    registry.lose(one)
    assert registry.count("mcqa") == 0


async def test_any_order_of_events_counts_as_looking_at_each_does() -> None:
    chance = random.Random(3)
    registry = SandboxRegistry()
    made = [entry(f"{number % 40}", chance.choice(("mcqa", "other"))) for number in range(120)]
    for _ in range(2000):
        act = chance.choice((registry.add, registry.lose, lambda one: registry.forget(one, "")))
        act(chance.choice(made))
        for instance in ("mcqa", "other"):
            assert registry.count(instance) == counted_one_by_one(registry, instance)
