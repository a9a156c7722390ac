from keepsake import Cache, cached


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_setting_again_counts_as_use():
    cache = Cache(2, 10)
    cache.set("a", 1)
    cache.set("b", 2)
    cache.set("a", 3)
    cache.set("c", 4)
    assert cache.get("a") == 3
    assert cache.get("b") is None


def test_expired_entries_do_not_push_out_live_ones():
    clock = Clock()
    cache = Cache(2, 10, clock=clock)
    cache.set("live", 1)
    cache.set("old", 2)
    clock.now = 5.0
    cache.set("live", 1)
    cache.get("old")
    clock.now = 12.0
    cache.set("new", 3)
    assert cache.get("live") == 1
    assert cache.get("new") == 3


def test_expired_entries_are_not_counted():
    clock = Clock()
    cache = Cache(5, 10, clock=clock)
    cache.set("a", 1)
    cache.set("b", 2)
    clock.now = 10.0
    assert len(cache) == 0


def test_the_last_moment_is_too_late():
    clock = Clock()
    cache = Cache(2, 10, clock=clock)
    cache.set("a", 1)
    clock.now = 10.0
    assert cache.get("a") is None


def test_none_is_remembered_too():
    calls = []

    @cached()
    def nothing(number):
        calls.append(number)

    nothing(1)
    nothing(1)
    assert calls == [1]


def test_the_order_of_keywords_does_not_matter():
    calls = []

    @cached()
    def add(a, b):
        calls.append((a, b))
        return a + b

    assert add(a=1, b=2) == add(b=2, a=1)
    assert len(calls) == 1
