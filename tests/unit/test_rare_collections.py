"""Looks for circles of objects get rarer while they find none, and usual again when they do."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from gym.rare_collections import MAX_NEW_OBJECTS, RareCollections, rare_collections

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def make_circles(count: int) -> None:
    for _ in range(count):
        one: list[object] = []
        one.append(one)


def test_they_get_rarer_up_to_a_bound_and_are_usual_afterwards() -> None:
    with rare_collections():
        gc.collect()
        for _ in range(20):
            gc.collect()
        assert gc.get_threshold() == (MAX_NEW_OBJECTS, *USUAL[1:])
    assert gc.get_threshold() == USUAL


def test_who_leaves_circles_behind_has_the_usual_looks() -> None:
    with rare_collections():
        for _ in range(20):
            gc.collect()
        gc.disable()
        make_circles(MAX_NEW_OBJECTS // 10)
        gc.enable()
        gc.collect()
        assert gc.get_threshold() == USUAL


def test_a_process_that_looks_for_none_is_left_alone() -> None:
    gc.set_threshold(0)
    with rare_collections():
        gc.collect()
        assert gc.get_threshold()[0] == 0


def test_it_can_be_stopped_twice() -> None:
    rare = RareCollections()
    rare.start()
    rare.stop()
    rare.stop()
    assert gc.get_threshold() == USUAL


def test_what_is_there_already_is_not_looked_at_meanwhile() -> None:
    gc.unfreeze()
    with rare_collections():
        frozen = gc.get_freeze_count()
        with rare_collections():
            pass
        assert gc.get_freeze_count() == frozen > 0  # the inner one leaves what it did not do
    assert gc.get_freeze_count() == 0
