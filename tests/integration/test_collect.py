"""A collection in this process against a real agent process: what is on the disk after failures and bad rows."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.collect import (
    AttemptOptions,
    BadRow,
    Event,
    Notice,
    Progress,
    Rollout,
    collect,
    run_collection,
)
from gym.collect.collect_options import SCHEMA
from gym.errors import ConfigError, InfraError, UserError
from tests.support.agents import fake_agent
from tests.support.collected_files import PARAMS, failures, options, read, run


def test_every_row_and_repeat_is_there_once_with_its_reward(tmp_path: Path) -> None:
    events: list[Event] = []
    with fake_agent() as agent:
        rows = [{"id": number, "expected": number % 3} for number in range(200)]
        summary = run(options(agent, tmp_path, rows, repeats=2), events)
        assert agent.stats()["aggregated"] == [400]
    assert (summary.exit_code, summary.progress.done, summary.progress.total) == (0, 400, 400)
    found = read(tmp_path / "X.jsonl")
    expected = Counter((number, repeat) for number in range(200) for repeat in range(2))
    assert Counter((row["_ng_task_index"], row["_ng_rollout_index"]) for row in found) == expected
    assert all(row["reward"] == row["id"] % 3 == row["_gym"]["reward"] for row in found)
    inputs = read(tmp_path / "X_materialized_inputs.jsonl")
    assert [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in inputs] == sorted(expected)
    (entry,) = orjson.loads((tmp_path / "X_aggregate_metrics.json").read_bytes())
    assert entry["agent_metrics"]["made_by"] == "agent"
    last = events[-1]
    assert isinstance(last, Progress)
    assert last.mean_reward == pytest.approx(sum(number % 3 for number in range(200)) / 200)
    assert orjson.loads((tmp_path / "X_run.json").read_bytes())["identity"]["schema"] == SCHEMA


def test_attempts_carry_their_deadline_and_an_id_of_their_own(tmp_path: Path) -> None:
    with fake_agent() as agent:
        run(options(agent, tmp_path, [{"fake": {"fail_times": 1}}], timeout=12.5))
        headers = agent.stats()["headers"]
    assert [one["x-gym-timeout"] for one in headers] == ["12.500"] * 2
    first, second = (one["x-gym-rollout-id"] for one in headers)
    assert second == f"{first}-a2"
    assert read(tmp_path / "X.jsonl")[0]["_gym"]["attempt"] == 2


def test_failures_are_data_with_their_kind_and_never_a_reward(tmp_path: Path) -> None:
    error = {"error": {"kind": "judge", "server": "judge_model", "message": "busy", "retryable": True}}
    rows: list[dict[str, Any]] = [
        {"id": "fine"},
        {"id": "flaky", "fake": {"fail_times": 2}},
        {"id": "row", "fake": {"fail_times": -1, "status": 422}},
        {"id": "judge", "fake": {"fail_times": -1, "status": 500, "body": error}},
        {"id": "lost", "fake": {"drop": True}},
        {"id": "nan", "fake": {"raw": '{"reward": NaN}'}},
        {"id": "soft", "fake": {"extra": {"_ng_failure_class": "oom", "_ng_failure_terminal": True}}},
        {"id": "unkept", "fake": {"extra": {"_ng_no_persist": True}}},
    ]
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, rows, concurrency=2))
        seen = agent.stats()["seen"]
    assert [row["id"] for row in read(tmp_path / "X.jsonl")] == ["fine", "flaky"]
    found = {row["_ng_task_index"]: (row["kind"], row["server"], row["attempt"]) for row in failures(tmp_path)}
    assert found == {
        2: ("row", "agent", 1),
        3: ("judge", "judge_model", 3),
        4: ("agent", "agent", 3),
        5: ("resources", "agent", 3),
        6: ("agent", "agent", 1),
    }
    assert all("reward" not in row or row["id"] == "soft" for row in failures(tmp_path))
    timed = {row["_ng_task_index"] for row in failures(tmp_path) if row["_gym"].get("hops")}
    assert timed == {2, 3, 5, 6}  # all but the one that never answered
    assert seen == {"0:0": 1, "1:0": 3, "2:0": 1, "3:0": 3, "4:0": 3, "5:0": 3, "6:0": 1, "7:0": 1}
    progress = summary.progress
    assert (progress.done, progress.failed, progress.dropped, progress.mean_reward) == (2, 5, 1, 1.0)
    assert progress.failures == {"row": 1, "judge": 1, "agent": 2, "resources": 1}
    assert summary.exit_code == 0


def test_a_resume_does_what_is_left_and_tries_the_infrastructures_failures_again(tmp_path: Path) -> None:
    rows = [{"id": 0}, {"id": 1, "fake": {"fail_times": 3}}, {"id": 2, "fake": {"fail_times": -1, "status": 422}}]
    with fake_agent() as agent:
        run(options(agent, tmp_path, rows))
        assert {row["_ng_task_index"] for row in failures(tmp_path)} == {1, 2}
        summary = run(options(agent, tmp_path, rows))
        assert agent.stats()["seen"] == {"0:0": 1, "1:0": 4, "2:0": 1}
    assert sorted(row["id"] for row in read(tmp_path / "X.jsonl")) == [0, 1]
    assert [row["_ng_task_index"] for row in failures(tmp_path)] == [2]
    assert (summary.progress.resumed, summary.progress.done, summary.progress.failed) == (2, 2, 1)
    with fake_agent() as agent, pytest.raises(UserError, match="repeats: 1 then, 2 now"):
        run(options(agent, tmp_path, rows, repeats=2))


def test_an_output_whose_lines_some_program_ended_in_crlf_is_gone_on_with(tmp_path: Path) -> None:
    rows = [{"id": 0}, {"id": 1, "fake": {"fail_times": 3}}, {"id": 2, "fake": {"fail_times": -1, "status": 422}}]
    with fake_agent() as agent:
        run(options(agent, tmp_path, rows))
        for name in ("X.jsonl", "X_failures.jsonl", "X_materialized_inputs.jsonl"):
            (tmp_path / name).write_bytes((tmp_path / name).read_bytes().replace(b"\n", b"\r\n"))
        run(options(agent, tmp_path, rows))
        assert agent.stats()["seen"] == {"0:0": 1, "1:0": 4, "2:0": 1}
    assert sorted(row["id"] for row in read(tmp_path / "X.jsonl")) == [0, 1]
    assert (tmp_path / "X_aggregate_metrics.json").exists()


def test_a_hung_rollout_costs_its_deadline_and_not_the_run(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": 0, "fake": {"delay": 3600}}, *({"id": number} for number in range(1, 20))]
    with fake_agent() as agent:
        chosen = options(agent, tmp_path, rows, timeout=5, max_attempts=1, concurrency=2)
        summary = run(chosen)
    (failure,) = failures(tmp_path)
    assert (failure["kind"], failure["message"]) == ("timeout", "no answer within 5 s")
    assert summary.progress.done == 19


def test_rollouts_through_a_router_carry_the_token(tmp_path: Path) -> None:
    with fake_agent(token="hush", replicas=["http://agent-1.invalid:8000"]) as agent:
        summary = run(options(agent, tmp_path, [{"id": 0}], token="hush"))
        (headers,) = agent.stats()["headers"]
    assert (summary.exit_code, headers["authorization"]) == (0, "Bearer hush")
    assert b"hush" not in (tmp_path / "X_run.json").read_bytes()


def test_an_agent_without_aggregates_of_its_own_gets_the_baseline(tmp_path: Path) -> None:
    with fake_agent() as agent:
        agent.control(mute=True)
        summary = run(options(agent, tmp_path, [{"id": number, "expected": number} for number in range(2)]))
    assert summary.metrics_file is not None
    (entry,) = orjson.loads(summary.metrics_file.read_bytes())
    assert entry["key_metrics"]["mean/reward"] == 0.5
    assert entry["agent_metrics"]["median/total_tokens"] == 7


def test_aggregates_kept_as_rollouts_arrive_are_those_of_the_output(tmp_path: Path) -> None:
    """The second run has nothing to do and reads the output."""
    rows = [{"expected": number % 3, "agent_ref": {"name": ("one", "two")[number % 2]}} for number in range(40)]
    with fake_agent(names=["one", "two"]) as agent:
        agent.control(mute=True)
        chosen = options(agent, tmp_path, rows, repeats=2, concurrency=1)
        kept = run(chosen).metrics_file
        assert kept is not None
        found = kept.read_bytes()
        kept.unlink()
        assert run(chosen).metrics_file == kept
    assert kept.read_bytes() == found


def test_progress_comes_at_most_five_times_a_second(tmp_path: Path) -> None:
    events: list[Event] = []
    with fake_agent(delay=0.05) as agent:
        run(options(agent, tmp_path, ({"id": number} for number in range(60)), concurrency=2), events)
    progress = [event for event in events if isinstance(event, Progress)]
    assert len(progress) <= progress[-1].elapsed * 5 + 2
    assert progress[0].total == 60
    assert [event.done for event in progress] == sorted(event.done for event in progress)
    assert max(event.in_flight for event in progress) == 2
    assert any(event.eta_seconds for event in progress)
    assert progress[-1].agents["agent"].done == 60


def test_concurrency_is_bounded_and_used(tmp_path: Path) -> None:
    with fake_agent(delay=0.1) as agent:
        run(options(agent, tmp_path, ({"id": number} for number in range(100)), concurrency=7))
        assert agent.stats()["most"] == 7


def test_a_bad_row_at_the_beginning_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    with fake_agent() as agent:
        with pytest.raises(ConfigError) as caught:
            run(options(agent, tmp_path, [{"id": 0}, b"{", {"agent_ref": {"name": "agnet"}}]))
        assert agent.stats()["runs"] == 0
    assert "in.jsonl:2: not JSON" in str(caught.value)
    assert "in.jsonl:3: agent_ref: the stack has no agent 'agnet'\n    it has agent" in str(caught.value)
    assert "--skip-bad-rows" in caught.value.hint


def test_two_rows_that_would_count_as_one_task_stop_the_run_before_it_starts(tmp_path: Path) -> None:
    rows = [{"id": 0, "_ng_task_index": 4}, *({"id": number} for number in range(1, 6))]
    with fake_agent() as agent:
        with pytest.raises(ConfigError, match=r"in\.jsonl:5: _ng_task_index: .* task 4, which \S*in\.jsonl:1 brings"):
            run(options(agent, tmp_path, rows))
        assert read(tmp_path / "X.jsonl") == []
        summary = run(options(agent, tmp_path, rows, skip_bad_rows=True))
    assert (summary.progress.done, summary.progress.bad_rows) == (5, 1)


def test_a_bad_row_far_down_ends_the_run_with_what_is_done_written(tmp_path: Path) -> None:
    rows: list[dict[str, Any] | bytes] = [{"id": number} for number in range(3000)]
    rows[2500] = b"\xff"
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, rows))
        assert summary.exit_code == 1
        assert "in.jsonl:2501: not JSON" in summary.reason
        assert len(read(tmp_path / "X.jsonl")) == summary.progress.done
        assert not (tmp_path / "X_aggregate_metrics.json").exists()


def test_bad_rows_can_be_passed_over_and_are_listed(tmp_path: Path) -> None:
    events: list[Event] = []
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, [{"id": 0}, b"[]", {"id": 1}], skip_bad_rows=True), events)
    assert (summary.exit_code, summary.progress.done, summary.progress.bad_rows) == (0, 2, 1)
    assert [problem.line for problem in summary.bad_rows] == [2]
    assert len([event for event in events if isinstance(event, BadRow)]) == 1


def test_a_collection_whose_rows_are_all_bad_has_failed(tmp_path: Path) -> None:
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, [b"[]", b"{"], skip_bad_rows=True))
    assert (summary.exit_code, summary.reason) == (1, "every row is bad")


def test_an_input_without_rows_is_reported(tmp_path: Path) -> None:
    with fake_agent() as agent, pytest.raises(UserError, match=r"in\.jsonl: no rows"):
        run(options(agent, tmp_path, [b"", b" "]))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows_materialized_inputs.jsonl", "rows_failures.jsonl"])
@pytest.mark.parametrize("fresh", [False, True])
def test_an_input_is_never_the_output_nor_what_is_written_beside_it(tmp_path: Path, name: str, fresh: bool) -> None:
    data = tmp_path / name
    data.write_bytes(orjson.dumps(PARAMS) + b"\n")
    with fake_agent() as agent:
        chosen = options(agent, tmp_path, [{}], inputs=(str(data),), output=tmp_path / "rows.jsonl", fresh=fresh)
        with pytest.raises(UserError, match="is an input, and this run would write it"):
            run(chosen)
    assert data.read_bytes() == orjson.dumps(PARAMS) + b"\n"


def test_a_row_of_fifty_megabytes_goes_through(tmp_path: Path) -> None:
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, [{"text": "x" * 50_000_000}, {"id": 1}]))
    assert summary.progress.done == 2
    assert (tmp_path / "X.jsonl").stat().st_size > 50_000_000


def test_shards_are_the_whole(tmp_path: Path) -> None:
    keys: list[str] = []
    with fake_agent() as agent:
        for part in (1, 2, 3):
            (tmp_path / str(part)).mkdir()
            chosen = options(agent, tmp_path / str(part), ({"id": number} for number in range(20)), shard=(part, 3))
            run(chosen)
            keys += [row["_gym"]["key"] for row in read(chosen.output)]
    assert len(keys) == len(set(keys)) == 20


def test_a_router_that_has_not_read_its_files_costs_no_attempt(tmp_path: Path) -> None:
    unrouted = {"fail_times": 3, "status": 404, "words": "404 page not found\n"}
    with fake_agent() as agent:
        summary = run(options(agent, tmp_path, ({"id": number, "fake": unrouted} for number in range(20))))
    assert (summary.progress.done, summary.progress.failed, summary.progress.retries) == (20, 0, 0)
    assert {row["_gym"]["attempt"] for row in read(tmp_path / "X.jsonl")} == {1}


def test_a_broken_server_pauses_the_run_and_burns_no_rows(tmp_path: Path) -> None:
    error = {"error": {"kind": "model", "server": "policy_model", "message": "connection refused", "retryable": True}}
    with fake_agent() as agent:
        agent.control(broken={"status": 502, "body": error})
        events: list[Event] = []

        def on_event(event: Event) -> None:
            events.append(event)
            if isinstance(event, Notice) and event.text.startswith("paused: policy_model fails (model"):
                agent.control(broken={})

        summary = run_collection(options(agent, tmp_path, ({"id": number} for number in range(100))), on_event)
    texts = [event.text for event in events if isinstance(event, Notice)]
    assert "connection refused" in texts[0]
    assert texts[-1] == "agent works again"
    assert (summary.exit_code, summary.progress.done, summary.progress.failed) == (0, 100, 0)


def test_a_server_that_stays_broken_ends_the_run_with_an_output_to_resume(tmp_path: Path) -> None:
    rows = [{"id": number} for number in range(50)]
    with fake_agent() as agent:
        agent.control(broken={"status": 500, "healthz": True})
        summary = run(options(agent, tmp_path, rows, max_pause=0.05))
        assert summary.exit_code == 2
        assert "agent answers 503 to /healthz" in summary.reason
        agent.control(broken={})
        summary = run(options(agent, tmp_path, rows))
    assert (summary.exit_code, summary.progress.done) == (0, 50)
    assert sorted(row["id"] for row in read(tmp_path / "X.jsonl")) == list(range(50))


async def test_a_program_gets_rollouts_as_they_finish() -> None:
    rows = [{"responses_create_params": {}, "id": number, "expected": number} for number in range(20)]
    with fake_agent() as agent:
        found = await gather(collect(agent.url, rows, repeats=2))
    assert sorted((one.row, one.repeat) for one in found) == [(row, repeat) for row in range(20) for repeat in range(2)]
    assert all(one.reward == one.row == (one.result or {})["id"] for one in found)


async def gather(stream: AsyncIterator[Rollout], into: list[Rollout] | None = None) -> list[Rollout]:
    found = [] if into is None else into
    async for rollout in stream:
        found.append(rollout)
    return found


async def test_a_program_gets_failures_as_values_and_bad_rows_as_errors() -> None:
    async def rows() -> AsyncIterator[object]:
        yield {"responses_create_params": {}, "fake": {"fail_times": -1, "status": 422}}
        yield {"responses": 1}

    found: list[Rollout] = []
    with fake_agent() as agent, pytest.raises(ConfigError, match="rows:2: responses_create_params: is missing"):
        await gather(collect(agent.url, rows(), options=AttemptOptions(concurrency=1)), found)
    (one,) = found
    assert (one.reward, one.failure and one.failure.kind) == (None, "row")


async def test_a_program_may_stop_listening_at_any_time() -> None:
    rows = [{"responses_create_params": {}, "id": number} for number in range(1000)]
    with fake_agent() as agent:
        async with contextlib.aclosing(collect(agent.url, rows, options=AttemptOptions(concurrency=4))) as stream:
            await anext(stream)
        assert agent.stats()["runs"] < 1000
        agent.control(broken={"status": 500, "healthz": True})
        with pytest.raises(InfraError, match="nothing got better"):
            await gather(collect(agent.url, rows, options=AttemptOptions(max_pause=0.05, backoff=0.001)))


SETTINGS = {"agent": {"fields": {"resources_server": {"name": "calc"}}}, "calc": {"fields": {}}}
TOOLS = [{"type": "function", "name": name} for name in ("add", "subtract", "divide")]


def notices(events: list[Event]) -> list[str]:
    return [one.text for one in events if isinstance(one, Notice)]


def test_tools_that_rows_do_not_list_are_missed_aloud_once_and_filled_in_on_request(tmp_path: Path) -> None:
    with fake_agent(settings=SETTINGS, tools=TOOLS) as agent:
        rows, events = [{"n": n} for n in range(3)], list[Event]()
        assert run(options(agent, tmp_path, rows), events).exit_code == 0
        missed = "add and 2 more are never offered to the model: rows of agent list no tools."
        assert [one.startswith(missed) for one in notices(events)] == [True]
        assert not any("tools" in one["responses_create_params"] for one in read(tmp_path / "X.jsonl"))
        with pytest.raises(UserError, match='tools: nothing then, "auto" now'):
            run(options(agent, tmp_path, rows, fill_tools=True))
        events.clear()
        run(options(agent, tmp_path, rows, fill_tools=True, fresh=True), events)
        assert [one for one in notices(events) if "tools" in one] == []
        assert [one["responses_create_params"]["tools"] for one in read(tmp_path / "X.jsonl")] == [TOOLS] * 3


def test_tools_that_cannot_be_read_stop_a_run_only_where_they_are_asked_for(tmp_path: Path) -> None:
    with fake_agent(settings=SETTINGS, statuses={"/tools": 503}) as agent:
        assert run(options(agent, tmp_path, [{}])).exit_code == 0
        with pytest.raises(InfraError, match="calc does not tell its tools: GET /tools was answered 503"):
            run(options(agent, tmp_path, [{}], fill_tools=True))
    with fake_agent() as agent, pytest.raises(InfraError, match="an older gym started it"):
        run(options(agent, tmp_path, [{}], fill_tools=True, fresh=True))
