import pytest

from keepsake import Cache, cached


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_what_was_set_is_found():
    cache = Cache(2, 10)
    cache.set("a", 1)
    assert cache.get("a") == 1


def test_the_least_recently_used_goes():
    cache = Cache(2, 10)
    cache.set("a", 1)
    cache.set("b", 2)
    cache.get("a")
    cache.set("c", 3)
    assert cache.get("b") is None
    assert cache.get("a") == 1


def test_time_runs_out():
    clock = Clock()
    cache = Cache(2, 10, clock=clock)
    cache.set("a", 1)
    clock.now = 11.0
    assert cache.get("a") is None


def test_cached_calls_once():
    calls = []

    @cached()
    def double(number):
        calls.append(number)
        return number * 2

    assert [double(2), double(2), double(3)] == [4, 4, 6]
    assert calls == [2, 3]


def test_size_must_be_positive():
    with pytest.raises(ValueError, match="size"):
        Cache(0, 1)
