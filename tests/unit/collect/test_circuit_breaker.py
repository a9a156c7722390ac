"""When a run pauses, what it says, how it goes on, and when it gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from gym.collect.circuit_breaker import CircuitBreaker, GaveUp, Probe
from gym.collect.run_replies import SoftFailure
from gym.wire.failures import FailureKind, RolloutError


class Changes:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def __call__(self, agent: str, reason: str) -> None:
        self.reasons.append(reason)


def breaker(changes: Changes | None = None, *, max_pause: float = 60.0, wait: float = 0.001) -> CircuitBreaker:
    return CircuitBreaker("math", first_wait=wait, max_pause=max_pause, on_change=changes or Changes())


def broken(kind: FailureKind = "model", server: str = "policy_model") -> RolloutError:
    return RolloutError(kind, "connection refused", server=server)


def trip(one: CircuitBreaker) -> None:
    number = 0
    while end(one, f"row {number}", broken()):
        number += 1


def end(one: CircuitBreaker, key: str, failure: RolloutError | None) -> bool:
    """An attempt that ends as soon as it has begun."""
    return one.record(one.begin(key), failure)


async def healthy(names: Collection[str]) -> str:
    return ""


async def unhealthy(names: Collection[str]) -> str:
    return "policy_model answers 503 to /healthz"


async def test_a_few_failures_pause_nothing() -> None:
    one = breaker()
    assert all(end(one, f"row {number}", broken()) for number in range(7))
    assert await one.admit()


async def test_failures_that_dominate_pause_and_name_the_server() -> None:
    changes = Changes()
    one = breaker(changes)
    trip(one)
    assert changes.reasons == ["policy_model fails (model, 8 of the last 8 attempts): connection refused"]
    assert one.reason == changes.reasons[0]


async def test_failures_among_more_successes_pause_nothing() -> None:
    one = breaker()
    for number in range(100):
        assert end(one, f"row {number}", broken())
        assert end(one, f"row {number}", None)
    assert one.reason == ""


@pytest.mark.parametrize("kind", ["row", "budget", "timeout", "cancelled"])
async def test_failures_of_rows_pause_nothing(kind: FailureKind) -> None:
    one = breaker()
    assert all(end(one, "row", broken(kind)) for _ in range(100))
    assert one.reason == ""


async def test_what_fails_during_a_pause_is_not_held_against_its_row() -> None:
    one = breaker()
    trip(one)
    assert not end(one, "row", broken())
    assert end(one, "row", RolloutError("row", "bad"))


async def test_a_pause_ends_with_one_trial_that_succeeds() -> None:
    changes = Changes()
    one = breaker(changes)
    trip(one)
    waiting = [asyncio.create_task(one.admit()) for _ in range(5)]
    watch = asyncio.create_task(one.end_pauses(healthy))
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    assert end(one, "row", None)
    assert await asyncio.gather(*waiting) == [True] * 5
    assert changes.reasons[-1] == ""
    watch.cancel()


async def test_a_trial_that_fails_counts_for_its_row_and_pauses_on() -> None:
    one = breaker()
    trip(one)
    watch = asyncio.create_task(one.end_pauses(healthy))
    for _ in range(3):
        assert await one.admit()
        assert end(one, "poison", broken())
        assert one.reason
    assert await one.admit()
    end(one, "row", None)
    assert one.reason == ""
    watch.cancel()


async def waits_of_trials(
    monkeypatch: pytest.MonkeyPatch, failure: RolloutError, count: int, probe: Probe = healthy
) -> list[float]:
    """The waits before so many trials, each of which ends by this failure. No time passes."""
    waits: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", note)
    one = breaker(wait=1.0, max_pause=1000)
    trip(one)
    watch = asyncio.create_task(one.end_pauses(probe))
    for number in range(count):
        assert await one.admit()
        assert end(one, f"row {number}", failure)
    watch.cancel()
    return waits


FINAL = RolloutError("resources", "verify raised KeyError", server="shop", retryable=False)


async def test_rows_that_a_working_server_fails_each_time_do_not_wait_longer_and_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await waits_of_trials(monkeypatch, FINAL, 9) == [1.0, 2.0, *[1.0] * 7]


async def test_what_a_new_attempt_may_help_is_waited_for_longer_and_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await waits_of_trials(monkeypatch, broken(), 6) == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


async def test_a_server_that_fails_every_row_costs_a_large_data_set_few(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = await waits_of_trials(monkeypatch, FINAL, 60)
    assert waits[:42] == [1.0, 2.0, *[1.0] * 40]
    assert waits[42:46] == [2.0, 4.0, 8.0, 10.0]


async def test_an_unhealthy_server_is_waited_for_whatever_its_failures_say(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def probe(names: Collection[str]) -> str:
        nonlocal asked
        asked += 1
        return "" if asked in (1, 5) else "shop answers 503 to /healthz"

    assert await waits_of_trials(monkeypatch, FINAL, 2, probe) == [1.0, 2.0, 4.0, 8.0, 16.0]


async def test_no_trial_begins_while_a_server_is_unhealthy() -> None:
    asked: list[set[str]] = []

    async def probe(names: Collection[str]) -> str:
        asked.append(set(names))
        return "" if len(asked) == 3 else "policy_model answers 503 to /healthz"

    changes = Changes()
    one = breaker(changes)
    trip(one)
    watch = asyncio.create_task(one.end_pauses(probe))
    assert await one.admit()
    assert asked == [{"math", "policy_model"}] * 3
    assert changes.reasons[1] == "policy_model answers 503 to /healthz"
    watch.cancel()


async def test_a_pause_without_an_end_gives_up() -> None:
    one = breaker(max_pause=0.01)
    trip(one)
    with pytest.raises(GaveUp, match="nothing got better: policy_model answers 503"):
        await one.end_pauses(unhealthy)


async def test_trials_that_keep_failing_do_not_put_off_the_giving_up() -> None:
    one = breaker(max_pause=0.02)
    trip(one)
    watch = asyncio.create_task(one.end_pauses(healthy))

    async def keep_trying() -> None:
        while await one.admit():
            end(one, "row", broken())

    trials = asyncio.create_task(keep_trying())
    with pytest.raises(GaveUp):
        await watch
    trials.cancel()


async def test_a_late_success_ends_a_pause_at_once() -> None:
    one = breaker(wait=1000)
    trip(one)
    end(one, "row", None)
    assert await one.admit()


async def test_no_attempt_starts_after_a_stop() -> None:
    one = breaker()
    trip(one)
    waiting = asyncio.create_task(one.admit())
    await asyncio.sleep(0)
    one.stop()
    assert not await waiting


async def test_one_poisonous_row_pauses_nothing() -> None:
    one = breaker()
    assert all(end(one, f"row {number % 4}", broken()) for number in range(100))
    assert one.reason == ""


async def test_the_window_forgets() -> None:
    one = breaker()
    for number in range(7):
        end(one, f"row {number}", broken())
    for number in range(40):
        end(one, f"fine {number}", None)
    assert all(end(one, f"late {number}", broken()) for number in range(27))
    assert not end(one, "late 27", broken())


async def test_failures_that_the_agent_itself_reports_in_a_reply_pause_nothing() -> None:
    one = breaker()
    soft = SoftFailure("math", {"_ng_failure_class": "hard task"})
    assert all(end(one, f"row {number}", soft) for number in range(100))
    assert one.reason == ""


async def test_a_trial_that_is_called_off_says_nothing_and_makes_place_for_another() -> None:
    one = breaker()
    trip(one)
    watching = asyncio.create_task(one.end_pauses(healthy))
    assert await one.admit()
    number = one.begin("the trial")
    assert not one.admit_now()
    one.cancel(number)
    assert await one.admit()
    assert end(one, "another", None)
    assert one.reason == ""
    watching.cancel()
    await asyncio.wait({watching})
