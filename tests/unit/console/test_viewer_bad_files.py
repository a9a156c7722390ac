"""Files that no tool should have written, or that change under the reader: the list says so and stays up."""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.console.pages.shell import PageAccess, make_app
from gym.console.viewer.app import make_section
from gym.console.viewer.embed import embed_rollouts
from gym.console.viewer.query import SORTS
from gym.console.viewer.rollout_files import RolloutFiles
from gym.server.testing import Caller, running
from tests.support.rollout_files import CHROMIUM, browse, failure, rollout, visible_text, write_lines

API = "/view/api/rollouts"
MIXED: list[Any] = [
    {"reward": 1},
    {"reward": "much", "response": 5, "_gym": [], "responses_create_params": None, "agent_ref": "x"},
    {"response": {"output": {"a": 1}, "usage": []}, "reward": None, "_ng_task_index": "seven", "scores": {"a": "b"}},
    {"response": {"output": [None, 5, {"type": 7}, {"type": "x_call"}]}, "reward": True, "_ng_task_index": -4},
    {"response": {"output": []}, "_ng_task_index": 1 << 40, "_ng_rollout_index": 1.5, "reward": 1e308, "deep": -1e308},
    *({f"column {each}": each, "reward": 0.5} for each in range(200)),
    rollout(3),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "x.jsonl", [rollout(0, 0, 1.0), rollout(0, 1, 0.0), rollout(1, 0, 1.0)])


@pytest.fixture
async def caller(path: Path) -> AsyncIterator[Caller]:
    async with running(make_app([make_section(RolloutFiles([path]))], PageAccess())) as url, Caller(url) as made:
        yield made


async def answer(caller: Caller, what: str) -> Any:
    reply = await caller.get(f"{API}/{what}")
    assert reply.status == 200, reply.body
    return reply.body


async def test_lines_of_many_shapes_are_all_listed_in_every_order(caller: Caller, path: Path) -> None:
    write_lines(path, MIXED)
    for sort in SORTS:
        assert (await answer(caller, f"list?sort={sort}"))["total"] == len(MIXED)
        assert (await answer(caller, f"groups?sort={sort}"))["lines"] == len(MIXED)
    assert (await answer(caller, "list?component=column%205&least=5"))["total"] == 1
    summary = await answer(caller, "summary")
    assert len(summary["components"]) == 64
    assert summary["count"] == len(MIXED)


async def test_a_torn_last_line_is_reported_and_counted_once_it_is_whole(caller: Caller, path: Path) -> None:
    line = orjson.dumps(rollout(5)) + b"\n"
    with path.open("ab") as stream:
        stream.write(line[:70])
    summary = await answer(caller, "summary")
    assert summary["notices"] == [
        f"{path}:4: the last line is unfinished (70 bytes): still being written, or torn by a crash"
    ]
    with path.open("ab") as stream:
        stream.write(line[70:])
    summary = await answer(caller, "summary")
    assert (summary["count"], summary["notices"]) == (4, [])


async def test_a_file_deleted_while_open_is_an_empty_list_and_comes_back(caller: Caller, path: Path) -> None:
    whole = path.read_bytes()
    assert (await answer(caller, "list"))["total"] == 3
    path.unlink()
    assert (await caller.get(f"{API}/rollout/x:1")).status in (404, 410)
    assert (await answer(caller, "list"))["total"] == 0
    assert (await answer(caller, "groups"))["groups"] == []
    assert (await caller.get(f"{API}/rollout/x:1/row")).status == 404
    assert (await answer(caller, "summary"))["notices"] == [f"{path} is not there any more"]
    path.write_bytes(whole)
    assert (await answer(caller, "list"))["total"] == 3
    assert (await answer(caller, "summary"))["notices"] == []


async def test_that_no_note_can_be_stored_is_said_before_one_is_written(caller: Caller, path: Path) -> None:
    notes = path.with_name("x_notes.jsonl")
    notes.symlink_to(path.with_name("elsewhere"))
    assert (await answer(caller, "summary"))["notices"] == [
        f"{notes} is not a plain file: flags and notes cannot be stored."
    ]
    notes.unlink()
    assert (await answer(caller, "summary"))["notices"] == []


async def test_a_file_rewritten_while_open_never_gives_another_line_for_the_one_that_was_listed(
    caller: Caller, path: Path
) -> None:
    assert (await answer(caller, "list"))["total"] == 3
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b'"reward":1.0', b'"reward":0.9'))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    reply = await caller.get(f"{API}/rollout/x:1")
    assert (reply.status, "was rewritten" in reply.body["error"]) == (404, True)
    write_lines(path, [rollout(7, 0, 0.25)] * 2)
    assert [row["task"] for row in (await answer(caller, "list"))["rows"]] == [7, 7]
    assert (await caller.get(f"{API}/rollout/x:1")).status == 200


async def test_binary_in_a_tool_s_output_and_bytes_that_are_not_text_are_listed(caller: Caller, path: Path) -> None:
    noise = random.Random(3).randbytes(5000)
    odd = rollout(1)
    odd["response"]["output"][2]["output"] = noise.decode("latin-1") + "\x00\x1b[31m\ud7ff"
    write_lines(path, [odd, noise.replace(b"\n", b"") + b"\n", b"\x00" * 1000 + b"\n", rollout(2)])
    found = await answer(caller, "list")
    assert [row["kind"] for row in found["rows"]] == ["", "malformed", "malformed", ""]
    assert (await answer(caller, "rollout/x:2/problem"))["reason"].startswith("not JSON")
    assert (await answer(caller, "list?text=%00%1b"))["total"] == 1
    assert (await caller.get(f"{API}/list?text=%FF%FE")).status == 200


async def test_halves_of_characters_that_python_writes_are_not_a_malformed_line(caller: Caller, path: Path) -> None:
    odd = rollout(1, note="\ud83d")
    odd["response"]["output"][2]["output"] = b"\x80\xff".decode("utf-8", "surrogateescape")
    odd["responses_create_params"]["input"][0]["content"] = "What is \udcff?"
    broken = json.dumps(odd)[:-1] + ', "reward": NaN}'
    write_lines(path, [json.dumps(odd).encode() + b"\n", broken.encode() + b"\n", rollout(2)])
    found = await answer(caller, "list")
    assert [row["kind"] for row in found["rows"]] == ["", "malformed", ""]
    assert (found["rows"][0]["title"], found["rows"][0]["reward"]) == ("What is ??", 1.0)
    assert (await caller.post(f"{API}/rollout/x:1/notes", {"flag": True})).body["flag"] is True
    assert b"udcff" in (await caller.get(f"{API}/rollout/x:1")).reply.body
    assert (await caller.get(f"{API}/export")).reply.body.count(b"_note") == 1
    files = RolloutFiles([path])
    files.refresh(whole=True)
    assert b"udcff" in embed_rollouts(files)


async def test_ten_thousand_steps_and_a_row_of_fifty_megabytes_are_rows_like_others(caller: Caller, path: Path) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}
    steps = rollout(1)
    steps["response"]["output"] = [call | {"name": f"tool {each % 100}"} for each in range(10_000)]
    large = rollout(2, padding="x" * (50 << 20))
    write_lines(path, [steps, large, rollout(3)])
    while (found := await answer(caller, "list"))["total"] < 3:
        await answer(caller, f"changes?generation={found['generation']}&wait=5")
    assert [row["steps"] for row in found["rows"]] == [10_000, 2, 2]
    assert len(found["rows"][0]["tools"]) == 64
    assert (await answer(caller, "list?text=answer+to+3"))["total"] <= 1
    assert (await answer(caller, "rollout/x:2/row"))["title"] == "Question 2?"


async def test_times_of_another_zone_stay_the_moment_that_they_are(caller: Caller, path: Path) -> None:
    """The file holds seconds since the epoch; the browser shows them in its own zone."""
    one, other = rollout(0), rollout(1)
    one["_gym"]["started"], other["_gym"]["started"] = 4e9, -1.0
    write_lines(path, [one, other])
    found = await answer(caller, "list?sort=-began")
    assert [row["began"] for row in found["rows"]] == [4e9, -1.0]


@pytest.mark.parametrize(
    "asked",
    [
        *(
            "flagged=yes",
            "task=seven",
            "task=-1",
            "low=1e999x",
            "sort=",
            "sort=;drop",
            "start=9999999999999",
            "count=x",
        ),
        *("least=a", "run=%00", "agent=%F0%9F%98%80", "text=" + "a" * 5000, "component=%3Cscript%3E", "tool=.."),
    ],
)
async def test_any_filter_of_an_address_is_answered_or_refused_in_words(asked: str, caller: Caller) -> None:
    for page in ("list", "groups"):
        reply = await caller.get(f"{API}/{page}?{asked}")
        assert reply.status == 200 or (reply.status == 400 and reply.body["error"])


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
async def test_a_browser_shows_the_list_beside_all_of_them(tmp_path: Path) -> None:
    odd = rollout(1)
    odd["response"]["output"][2]["output"] = random.Random(3).randbytes(3000).decode("latin-1")
    steps = rollout(2)
    steps["response"]["output"] *= 2_500
    lines = [*MIXED, odd, b"\xff\x00\n", steps, rollout(4, text="y" * (8 << 20)), rollout(5), b'{"torn']
    path = write_lines(tmp_path / "x.jsonl", lines)
    write_lines(tmp_path / "x_failures.jsonl", [failure(1), {"kind": {"a": 1}, "message": [5]}, b"{\n"])
    async with running(make_app([make_section(RolloutFiles([path]))], PageAccess())) as url:
        dom, complaints = await browse(f"{url}/view/rollouts?view=list&sort=-steps", tmp_path)
    text = visible_text(dom)
    assert f"{len(MIXED) + 4} rollouts · 2 failures" in text
    assert "2 malformed lines" in text
    assert "the last line is unfinished (6 bytes)" in text
    assert "Question 2?" in text
    assert complaints == ""
