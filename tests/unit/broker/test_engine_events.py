"""The watch over the engine's disk: what is growth, however much was given back before."""

from __future__ import annotations

from gym.broker.providers.docker.engine_events import GROWTH, FreeSpace


def test_growth_is_measured_from_where_there_was_most_room() -> None:
    room = FreeSpace(10 * GROWTH)
    assert not room.fell_to(9 * GROWTH)
    assert room.fell_to(9 * GROWTH - 1)
    assert not room.fell_to(12 * GROWTH)  # a sandbox was removed
    assert room.fell_to(11 * GROWTH - 1)  # another one grows, above where it began


def test_where_no_disk_is_seen_there_is_no_growth() -> None:
    assert not FreeSpace(None).fell_to(None)
    assert not FreeSpace(10 * GROWTH).fell_to(None)
