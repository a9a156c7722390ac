"""Files of rollouts as the viewer reads them: offsets, facts, filters, growth, and what cannot be read."""

from __future__ import annotations

import asyncio
import http.client
import json
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.console.pages.shell import PageAccess, make_app
from gym.console.viewer.app import make_section
from gym.console.viewer.embed import MAX_ROLLOUTS, embed_rollouts, spread_evenly
from gym.console.viewer.facts import read_facts
from gym.console.viewer.query import MAX_BARS, Query, draw_bars, read_query
from gym.console.viewer.rollout_files import NoSuchRollout, RolloutFiles
from gym.errors import UserError
from gym.server.testing import Caller, running
from tests.support.rollout_files import failure, rollout, write_lines

NAMES = st.sampled_from(["reward", "_gym", "kind", "agent_ref", "response", "usage", "name", "_ng_task_index", "x"])
PLAIN = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
ANYTHING = st.recursive(PLAIN, lambda one: st.lists(one) | st.dictionaries(NAMES, one))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_lines(tmp_path / "x_failures.jsonl", [failure(2, 0), failure(2, 1, "sandbox")])
    asked = [{key: value for key, value in rollout(2, 1).items() if key not in ("response", "reward", "_gym")}]
    write_lines(tmp_path / "x_materialized_inputs.jsonl", asked)
    rows = [rollout(task, repeat, reward=task / 2) for task in range(2) for repeat in range(2)]
    return write_lines(tmp_path / "x.jsonl", [*rows, rollout(7, 0, 0.75, agent="other")])


def opened(*paths: Path) -> RolloutFiles:
    files = RolloutFiles(paths)
    files.refresh(whole=True)
    return files


def test_the_head_counts_rollouts_failures_by_kind_and_rewards_by_agent(file: Path) -> None:
    summary = opened(file).summary()
    assert (summary["count"], summary["kinds"], summary["malformed"]) == (5, {"timeout": 1, "sandbox": 1}, 0)
    assert summary["range"] == [0.0, 0.75]
    assert summary["agents"] == [
        {"name": "other", "count": 1, "mean": 0.75, "failed": 0},
        {"name": "solver", "count": 4, "mean": 0.25, "failed": 2},
    ]


def test_a_line_of_the_list_says_whose_it_is_and_what_was_asked(file: Path) -> None:
    assert opened(file).view((0, 2)) == {
        **{
            "id": "x:3",
            "run": "x",
            "failures": False,
            "line": 3,
            "title": "Question 1?",
            "flagged": False,
            "agent": "solver",
            "kind": "",
        },
        **{"reward": 0.5, "task": 1, "repeat": 0, "seconds": 1.0, "tokens": 6, "steps": 2, "began": None},
        **{"tools": ("add",), "truncated": False, "breaks": False, "components": {}},
    }
    assert opened(file).view((1, 1))["kind"] == "sandbox"


def test_a_line_is_given_back_byte_for_byte(file: Path) -> None:
    lines = file.read_bytes().splitlines()
    assert [opened(file).line((0, index)) for index in range(5)] == lines


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"agent": "other"}, ["x:5"]),
        ({"agent": "missing"}, []),
        ({"kind": "failed"}, ["x:f1", "x:f2"]),
        ({"kind": "sandbox"}, ["x:f2"]),
        ({"kind": "verified", "low": "0.5"}, ["x:3", "x:4", "x:5"]),
        ({"low": "0.5", "high": "0.5"}, ["x:3", "x:4"]),
        ({"run": "x", "kind": "timeout"}, ["x:f1"]),
        ({"run": "y"}, []),
        ({"tool": "add", "low": "0.75"}, ["x:5"]),
        ({"tool": "ad"}, []),
        ({"task": "1"}, ["x:3", "x:4"]),
        ({"task": "2", "kind": "failed"}, ["x:f1", "x:f2"]),
        ({"component": "right", "least": "1"}, []),
        ({"truncated": "1"}, []),
        ({"breaks": "1"}, []),
        ({"text": "QUESTION 7"}, ["x:5"]),
        ({"text": "within 3"}, ["x:f1", "x:f2"]),
        ({"text": '"sum": 3'}, ["x:1", "x:2", "x:3", "x:4", "x:5"]),
        ({"text": "responses_create_params"}, []),
        ({"sort": "-reward", "kind": "verified"}, ["x:5", "x:3", "x:4", "x:1", "x:2"]),
        ({"sort": "-tokens"}, ["x:5", "x:3", "x:4", "x:1", "x:2", "x:f1", "x:f2"]),
        ({"sort": "task", "text": "ns"}, ["x:1", "x:2", "x:3", "x:4", "x:f1", "x:f2", "x:5"]),
    ],
)
def test_the_list_is_filtered_and_sorted(asked: dict[str, str], wanted: list[str], file: Path) -> None:
    files = opened(file)
    assert [files.view(place)["id"] for place in files.find(read_query(asked)).places] == wanted


def test_the_histogram_ignores_the_range_that_was_chosen_from_it(file: Path) -> None:
    assert opened(file).find(Query(low=0.5, high=0.5)).bars == [(0.0, 0.0, 2), (0.5, 0.5, 2), (0.75, 0.75, 1)]


@given(st.lists(st.floats(-1e6, 1e6), max_size=80))
def test_every_reward_is_in_one_bar_of_the_histogram(rewards: list[float]) -> None:
    bars = draw_bars(rewards)
    assert sum(count for _, _, count in bars) == len(rewards)
    assert len(bars) <= MAX_BARS


def test_lines_that_cannot_be_read_are_listed_with_their_place_and_hide_no_other(tmp_path: Path) -> None:
    bad = [b'{"reward": 1.0, "oops\n', b"[1]\n", b"\n", b"\xff\xfe{}\n", b'{"reward": NaN}\n']
    files = opened(write_lines(tmp_path / "x.jsonl", [rollout(0), *bad, rollout(1)]))
    assert (files.summary()["count"], files.summary()["malformed"]) == (2, 4)
    found = files.find(Query(kind="malformed")).places
    assert [files.view(place)["line"] for place in found] == [2, 3, 5, 6]
    problem = files.problem(found[0])
    assert problem["where"] == f"{tmp_path / 'x.jsonl'}:2"
    assert problem["reason"].startswith("not JSON")
    assert problem["text"] == '{"reward": 1.0, "oops'
    assert files.find(Query(agent="solver")).places == [(0, 0), (0, 5)]


@given(ANYTHING)
def test_facts_are_read_of_any_line_whatever_is_in_it(value: object) -> None:
    raw = json.dumps(value).encode()
    for failed in (False, True):
        facts = read_facts(raw, failed=failed)
        assert isinstance(facts.agent, str)
        assert -1 <= facts.task < 1 << 31


def test_what_is_appended_is_found_on_the_next_look_and_a_half_line_waits(file: Path) -> None:
    files = opened(file)
    whole = orjson.dumps(rollout(8)) + b"\n"
    with file.open("ab") as stream:
        stream.write(whole + whole[:50])
    files.refresh()
    first = files.summary()
    assert (first["count"], first["malformed"]) == (6, 0)
    assert first["notices"] == [
        f"{file}:7: the last line is unfinished (50 bytes): still being written, or torn by a crash"
    ]
    with file.open("ab") as stream:
        stream.write(whole[50:])
    files.refresh()
    assert (files.summary()["count"], files.summary()["notices"]) == (7, [])
    assert files.view((0, 6))["line"] == 7
    assert files.summary()["generation"] > first["generation"]


def test_a_last_line_without_a_newline_is_a_line_and_stays_one_when_the_newline_comes(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", [orjson.dumps(rollout(0))])
    files = opened(path)
    assert files.summary()["count"] == 1
    with path.open("ab") as stream:
        stream.write(b"\n" + orjson.dumps(rollout(1)) + b"\n")
    files.refresh()
    assert [files.view((0, index))["line"] for index in range(2)] == [1, 2]


def test_a_file_that_was_replaced_is_read_again(file: Path) -> None:
    files = opened(file)
    write_lines(file.with_suffix(".new"), [rollout(3)] * 9).replace(file)
    files.refresh()
    assert files.summary()["count"] == 9
    file.write_bytes(b"")
    file.with_name("x_failures.jsonl").unlink()
    files.refresh()
    assert (files.summary()["count"], files.summary()["kinds"]) == (0, {})
    with pytest.raises(NoSuchRollout, match="0/3"):
        files.line((0, 3))


def test_failures_that_come_later_are_found_beside_the_rollouts(tmp_path: Path) -> None:
    files = opened(write_lines(tmp_path / "y.jsonl", [rollout()]))
    write_lines(tmp_path / "y_failures.jsonl", [failure(1)])
    files.refresh()
    assert files.summary()["kinds"] == {"timeout": 1}


def test_what_a_failure_was_asked_is_looked_up_in_the_materialized_inputs(file: Path) -> None:
    files = opened(file)
    assert orjson.loads(files.asked((1, 1)))["responses_create_params"]["input"][0]["content"] == "Question 2?"
    assert files.asked((1, 0)) == b""


def test_only_positions_are_held_in_memory(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", (rollout(each, padding="p" * 20_000) for each in range(500)))
    tracemalloc.start()
    files = opened(path)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert files.summary()["count"] == 500
    assert held < path.stat().st_size / 20


@pytest.mark.parametrize(("name", "said"), [("absent.jsonl", "is not there"), ("x.jsonl.gz", "gunzip -k")])
def test_what_cannot_be_viewed_is_refused_with_the_next_step(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        RolloutFiles([tmp_path / name])


def test_a_page_too_large_for_a_browser_is_refused_and_a_sample_is_even(tmp_path: Path) -> None:
    line = orjson.dumps(rollout()) + b"\n"
    path = tmp_path / "x.jsonl"
    path.write_bytes(line * (MAX_ROLLOUTS + 1))
    with pytest.raises(UserError, match=f"--sample {MAX_ROLLOUTS}"):
        embed_rollouts(opened(path))
    assert b'"sampled":[10,5001]' in embed_rollouts(opened(path), sample=10)
    assert spread_evenly([(0, each) for each in range(10)], 3) == [(0, 1), (0, 5), (0, 8)]


@pytest.fixture
async def caller(file: Path) -> AsyncIterator[Caller]:
    async with running(make_app([make_section(opened(file))], PageAccess())) as url, Caller(url) as made:
        yield made


async def test_the_list_comes_in_pages(caller: Caller) -> None:
    first, second = [
        await caller.get(f"/view/api/rollouts/list?start={start}&count=3&kind=verified") for start in (0, 3)
    ]
    assert first.body["total"] == second.body["total"] == 5
    assert [row["id"] for row in first.body["rows"] + second.body["rows"]] == [f"x:{each + 1}" for each in range(5)]


async def test_a_rollout_is_served_as_its_own_bytes_under_a_policy_that_runs_nothing(
    caller: Caller, file: Path
) -> None:
    reply = await caller.get("/view/api/rollouts/rollout/x:4")
    assert reply.reply.body == file.read_bytes().splitlines()[3]
    headers = dict(reply.reply.headers)
    assert headers[b"content-security-policy"] == b"default-src 'none'; sandbox"
    assert headers[b"x-content-type-options"] == b"nosniff"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/view/api/rollouts/list?sort=sideways", 400, "expected one of"),
        ("/view/api/rollouts/list?low=much", 400, "expected a number"),
        ("/view/api/rollouts/list?start=-1", 400, "whole numbers"),
        ("/view/api/rollouts/rollout/x:99", 404, "its file has changed"),
        ("/view/api/rollouts/rollout/..%2F..%2Fetc%2Fpasswd:1", 404, "no rollout"),
    ],
)
async def test_a_question_that_makes_no_sense_is_answered_with_a_sentence(
    path: str, status: int, said: str, caller: Caller
) -> None:
    reply = await caller.get(path)
    assert reply.status == status
    assert said in reply.body["error"]


async def test_a_page_under_another_name_of_this_address_gets_nothing(caller: Caller) -> None:
    def status(host: str) -> int:
        connection = http.client.HTTPConnection(caller.url.removeprefix("http://"), timeout=60)
        connection.request("GET", "/view/api/rollouts/summary", headers={"host": host})
        found = connection.getresponse().status
        connection.close()
        return found

    assert await asyncio.to_thread(status, "evil.example") == 400
    assert await asyncio.to_thread(status, "localhost:1") == 200


async def test_a_file_that_is_gone_says_so(caller: Caller, file: Path) -> None:
    file.unlink()
    reply = await caller.get("/view/api/rollouts/rollout/x:1")
    assert reply.status == 410
    assert str(file) in reply.body["error"]


def test_the_columns_hold_tools_steps_components_hops_and_what_was_cut_off(tmp_path: Path) -> None:
    cut = rollout(1, scores={"style": 0.5, "note": "x"}, ok=True)
    cut["response"] |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    cut["_gym"] |= {"hops": {"model": 12.5}, "tokens_break": {"step": 2}, "started": 1e9, "queued": 0.25}
    columns = opened(write_lines(tmp_path / "x.jsonl", [rollout(0, 0, 0.5, right=3), cut])).files[0].columns
    assert [columns.tools(number) for number in columns.toolsets] == [("add",), ("add",)]
    assert columns.tool_names() == ["add"]
    assert columns.steps.tolist() == [2, 2]
    assert set(columns.components) == {"right", "scores.style", "ok"}
    first, second = columns.fact(0), columns.fact(1)
    assert (first.components, second.components) == ({"right": 3.0}, {"scores.style": 0.5, "ok": 1.0})
    assert (first.truncated, first.breaks, second.truncated, second.breaks) == (False, False, True, True)
    assert (second.hops, second.began, second.queued, second.title) == ({"model": 12.5}, 1e9, 0.25, "Question 1?")
