"""Sessions of one process, with a clock of the test's own."""

from __future__ import annotations

import pytest

from gym.server.session import SessionStore
from gym.wire.failures import RolloutError


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> SessionStore[str]:
    return SessionStore(ttl_seconds=10.0, max_sessions=3, clock=clock)


def test_a_session_is_found_by_an_id_that_cannot_be_guessed(store: SessionStore[str]) -> None:
    one, two = store.open("one"), store.open("two")
    assert len(one.id) == 32
    assert one.id != two.id
    found = store.find(one.id)
    assert found is not None
    assert found.state == "one"
    assert store.find("made up") is None


def test_a_session_lives_its_time_after_its_last_use(store: SessionStore[str], clock: Clock) -> None:
    session = store.open("x")
    for _ in range(3):
        clock.now += 9.0
        assert store.find(session.id) is session
    clock.now += 10.1
    assert store.find(session.id) is None


def test_what_expired_is_handed_over_once(store: SessionStore[str], clock: Clock) -> None:
    old = store.open("old")
    clock.now += 6.0
    young = store.open("young")
    clock.now += 6.0
    assert store.take_expired() == [old]
    assert store.take_expired() == []
    assert store.find(young.id) is young


def test_use_moves_a_session_to_the_young_end(store: SessionStore[str], clock: Clock) -> None:
    first = store.open("first")
    clock.now += 6.0
    second = store.open("second")
    clock.now += 3.0
    store.find(first.id)
    clock.now += 8.0
    assert store.take_expired() == [second]
    assert store.find(first.id) is first


def test_an_expired_session_is_not_found_but_still_handed_over(store: SessionStore[str], clock: Clock) -> None:
    session = store.open("x")
    clock.now += 11.0
    assert store.find(session.id) is None
    assert store.take_expired() == [session]


def test_a_session_may_be_opened_again_under_its_id(store: SessionStore[str]) -> None:
    session = store.open("old")
    again = store.open("new", session.id)
    assert again.id == session.id
    assert len(store) == 1
    found = store.find(session.id)
    assert found is not None
    assert found.state == "new"


def test_a_session_is_dropped_once(store: SessionStore[str]) -> None:
    session = store.open("x")
    assert store.drop(session.id) is session
    assert store.drop(session.id) is None


def test_a_full_store_says_what_to_do(store: SessionStore[str]) -> None:
    sessions = [store.open(str(index)) for index in range(3)]
    with pytest.raises(RolloutError, match="3 sessions are open; close_session or a shorter TTL frees some") as caught:
        store.open("one too many")
    assert caught.value.kind == "resources"
    assert store.open("again", sessions[0].id).state == "again"


def test_all_are_taken_at_the_end(store: SessionStore[str]) -> None:
    sessions = [store.open("a"), store.open("b")]
    assert store.take_all() == sessions
    assert len(store) == 0
