"""`TraceStore`: bounded in memory and on disk, and never silent about what it had to leave out."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from gym.server.blocks import FILE_BLOCK, MEMORY_BLOCK, Arena, Spool
from gym.server.trace_store import CALL_OVERHEAD, CaptureLimits, RecordedCall, Trace, TraceStore
from gym.wire.failures import RolloutError


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def add(kept: TraceStore, trace: Trace, text: bytes) -> None:
    kept.add(trace, RecordedCall("/v1/responses", 1.0, 0.1, 200, False), b"?" + text, b"!" + text)


def store(clock: Clock | None = None, **limits: float) -> TraceStore:
    return TraceStore(CaptureLimits.model_validate(limits), clock=clock or Clock())


def fill(kept: TraceStore, session_id: str, *texts: bytes) -> Trace:
    trace = kept.open(session_id, b"")
    for text in texts:
        add(kept, trace, text)
    return trace


def read(kept: TraceStore, trace: Trace) -> list[tuple[bytes, bytes]]:
    return [kept.texts(trace, one) for one in trace.calls]


@pytest.fixture
def spool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Spool]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spool = Spool(4 * FILE_BLOCK)
    yield spool
    spool.close()


def test_calls_come_back_in_order_and_go_when_dropped() -> None:
    kept = store()
    trace = fill(kept, "a", b"1", b"2")
    assert read(kept, trace) == [(b"?1", b"!1"), (b"?2", b"!2")]
    assert kept.drop("a") == 2
    assert (len(kept), kept.memory) == (0, 0)
    add(kept, trace, b"late")
    assert kept.memory == 0
    with pytest.raises(RolloutError, match="dropped meanwhile"):
        kept.texts(trace, RecordedCall("/", 0, 0, 200, False))


def test_an_id_belongs_to_the_token_that_claimed_it() -> None:
    kept = store()
    kept.open("a", b"mine")
    for other in (b"", b"yours"):
        with pytest.raises(RolloutError, match="belongs to another rollout") as failed:
            kept.open("a", other)
        assert (failed.value.kind, failed.value.status, failed.value.retryable) == ("row", 409, False)
    with pytest.raises(RolloutError, match="belongs to another"):
        kept.find("a", b"")


def test_an_id_belongs_to_the_rollout_that_used_it_first() -> None:
    kept = store()
    assert kept.open("a", b"") is kept.open("a", b"", "7-1") is kept.open("a", b"") is kept.open("a", b"", "7-1")
    with pytest.raises(RolloutError, match="belongs to another rollout"):
        kept.open("a", b"", "7-2")


def test_what_does_not_fit_into_memory_is_read_from_disk() -> None:
    kept = store(max_memory_bytes=100_000)
    texts = {name: [bytes([65 + index]) * 20_000 for index in range(3)] for name in "abcd"}
    traces = {name: fill(kept, name, *texts[name]) for name in "abcd"}
    assert kept.memory <= 100_000
    assert 0 < kept.disk <= 1 << 30
    for name, trace in traces.items():
        assert read(kept, trace) == [(b"?" + text, b"!" + text) for text in texts[name]]
    fill(kept, "a", b"more")
    assert read(kept, traces["a"])[-1] == (b"?more", b"!more")
    for name in "abcd":
        kept.drop(name)
    assert (kept.memory, kept.disk) == (0, 0)
    kept.close()


def test_with_no_room_left_the_least_recently_used_trace_goes_and_says_so() -> None:
    kept = store(max_memory_bytes=100_000, max_disk_bytes=4 * FILE_BLOCK)
    traces = [fill(kept, f"s{index}", b"x" * 20_000) for index in range(20)]
    lost = [one for one in traces if one.lost]
    assert 0 < len(lost) < 20
    assert traces[: len(lost)] == lost
    assert "made room" in lost[0].lost
    assert kept.disk <= 4 * FILE_BLOCK
    assert kept.memory <= 100_000
    add(kept, lost[0], b"y")
    assert (lost[0].calls, lost[0].not_recorded) == ([], 1)
    with pytest.raises(RolloutError, match="not whole"):
        kept.texts(lost[0], RecordedCall("/", 0, 0, 200, False))
    kept.close()


def test_many_small_calls_on_disk_are_counted_in_memory() -> None:
    limit = 400 * CALL_OVERHEAD
    kept = store(max_memory_bytes=limit, max_disk_bytes=1 << 30)
    traces = [fill(kept, f"s{number % 50}", b"x") for number in range(2000)]
    assert kept.memory <= limit
    assert kept.disk > 0
    assert any(one.lost for one in traces)
    kept.close()


def test_a_session_that_never_ends_keeps_its_beginning() -> None:
    kept = store(max_session_bytes=10_000)
    trace = fill(kept, "a", *[b"x" * 1000] * 3, b"x" * 10_000, b"x")
    assert len(trace.calls) == 3
    assert trace.not_recorded == 2


def test_too_many_sessions_push_out_the_oldest_idle_one() -> None:
    kept = store(max_sessions=3)
    first = fill(kept, "a", b"1")
    first.in_flight = 1
    for name in "bcd":
        fill(kept, name, b"1")
    assert [kept.find(name, b"") is not None for name in "abcd"] == [True, False, True, True]
    assert "made room" in kept.why_gone("b")
    assert "made room" in kept.open("b", b"").lost
    for name in "bd":
        kept.open(name, b"").in_flight = 1
    with pytest.raises(RolloutError, match=r"capture\.max_sessions") as failed:
        kept.open("z", b"")
    assert (failed.value.kind, failed.value.retryable) == ("model", True)


def test_ten_thousand_sessions_and_more_are_bounded() -> None:
    kept = store()
    for number in range(30_000):
        fill(kept, f"s{number}", b"x")
    assert len(kept) == 10_000
    assert kept.memory == 10_000 * (MEMORY_BLOCK + CALL_OVERHEAD)
    assert not kept.why_gone("s1")  # reasons are bounded as well
    assert kept.why_gone("s19999")


def test_a_session_without_calls_ends_by_its_ttl() -> None:
    clock = Clock()
    kept = store(clock, ttl_seconds=10)
    idle, busy = fill(kept, "idle", b"1"), fill(kept, "busy", b"1")
    busy.in_flight = 1
    clock.now += 11
    kept.expire()
    assert (idle.dropped, busy.dropped) == (True, False)
    assert "10 s without a call" in kept.why_gone("idle")
    assert "10 s without a call" in fill(kept, "idle", b"2").lost


def test_a_full_disk_loses_a_trace_and_no_call() -> None:
    kept = store(max_memory_bytes=100_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        trace = fill(kept, "a", b"x" * 20_000, b"x" * 20_000, b"x" * 20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "could not be written" in trace.lost
    assert (kept.memory, kept.disk) == (0, 0)
    kept.close()


def test_the_spool_uses_freed_blocks_again_and_has_no_name(spool: Spool, tmp_path: Path) -> None:
    first = spool.write(b"a" * (2 * FILE_BLOCK))
    second = spool.write(b"b" * (FILE_BLOCK + 1))
    assert not spool.has_room(1)
    spool.free(first)
    assert spool.has_room(2)
    third = spool.write(b"c" * FILE_BLOCK + b"d")
    assert spool.read(second, FILE_BLOCK - 1, 2) == b"bb"
    assert spool.read(third, FILE_BLOCK - 1, 2) == b"cd"
    assert list(tmp_path.iterdir()) == []
    for blocks in (second, third):
        spool.free(blocks)
    assert spool.used == 0


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_kept_is_what_was_recorded(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random calls of random sizes under bounds that are always met, against a plain dictionary."""
    random = Random(seed)
    monkeypatch.setattr("gym.server.trace_store.SPILL", random.choice((1, 20_000, 1_000_000)))
    kept = store(max_memory_bytes=300_000, max_disk_bytes=20 * FILE_BLOCK, max_sessions=6)
    expected: dict[str, list[tuple[bytes, bytes]]] = {}
    for _ in range(300):
        name = f"s{random.randrange(8)}"
        if random.random() < 0.1:
            kept.drop(name)
            expected[name] = []
            continue
        fresh = kept.find(name, b"") is None
        trace = kept.open(name, b"")
        if fresh and not trace.lost:
            expected[name] = []
        text = random.randbytes(random.choice((0, 10, 3000, MEMORY_BLOCK - 1, MEMORY_BLOCK, 60_000)))
        add(kept, trace, text)
        expected[name].append((b"?" + text, b"!" + text))
        assert kept.memory <= 300_000
        assert kept.disk <= 20 * FILE_BLOCK
        for other, texts in expected.items():
            found = kept.find(other, b"") if random.random() < 0.3 else None
            if found is not None and not found.lost:
                assert found.not_recorded == 0
                assert read(kept, found) == texts
    for name in expected:
        kept.drop(name)
    assert (kept.memory, kept.disk) == (0, 0)
    kept.close()


def test_memory_is_given_back_when_nothing_is_kept() -> None:
    arena = Arena(10 * MEMORY_BLOCK)
    blocks: list[int] = []
    assert arena.append(blocks, 0, b"x" * MEMORY_BLOCK + b"y") == MEMORY_BLOCK + 1
    arena.release()
    assert arena.read(blocks, MEMORY_BLOCK - 1, 2) == b"xy"
    arena.free(blocks)
    arena.release()
    assert arena.used == 0
    again: list[int] = []
    arena.append(again, 0, b"z")
    assert arena.read(again, 0, 1) == b"z"
    assert arena.read(again, 0, 0) == b""
