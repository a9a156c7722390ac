"""One rollout in a real browser: read, marked, compared with another of its task, taken along."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.cli.rollout_case import find_rollout, rollout_to_case
from gym.console.pages.shell import PageAccess, make_app
from gym.console.viewer.app import make_section
from gym.console.viewer.embed import embed_rollouts
from gym.console.viewer.rollout_files import RolloutFiles
from gym.server.testing import running
from tests.support.driven_browser import CHROMIUM, DrivenPage, driven
from tests.support.rollout_files import failure, rollout, write_lines

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")]
SAID = "# Steps\n\n| a | b |\n|---|---|\n| 1 | $\\frac12$ |\n\n```python\nx = 1\n```\n\nSo \\boxed{7}."
PATCH = "--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-return one\n+return two\n"
HOPS = {"seed": 5.0, "model": 20.0}
SHOWN = "document.querySelector('#reading h2')?.textContent"


def answered_rollout(text: str, **more: Any) -> dict[str, Any]:
    line = rollout(0, **more)
    output = line["response"]["output"]
    output[2]["output"] = "\x1b[31mfailed\x1b[0m\n[exit code 3]"
    output[3]["content"][0]["text"] = text
    return line


@pytest.fixture
def file(tmp_path: Path) -> Path:
    evaluation = {"responses_create_params": {"input": "Is it right?"}, "verdict_label": "[[NO]]"}
    first = answered_rollout(SAID, model_patch=PATCH, judge_evaluations=[evaluation], library_reward=0.5)
    first["_gym"] |= {"hops": HOPS, "seconds": 0.163}
    second = answered_rollout("It is 8.", repeat=1, reward=0.0)
    write_lines(tmp_path / "x_failures.jsonl", [failure(5)])
    write_lines(tmp_path / "x_materialized_inputs.jsonl", [{"_ng_task_index": 0, "_ng_rollout_index": 0, "seen": "so"}])
    return write_lines(tmp_path / "x.jsonl", [first, second, rollout(1)])


def opened(path: Path) -> RolloutFiles:
    files = RolloutFiles([path])
    files.refresh(whole=True)
    return files


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[DrivenPage]:
    async with driven(tmp_path / "profile") as found:
        await found.look()
        yield found


@pytest.fixture
async def url(file: Path) -> AsyncIterator[str]:
    async with running(make_app([make_section(opened(file))], PageAccess())) as address:
        yield f"{address}/view/rollouts"


async def press(page: DrivenPage, key: str) -> None:
    await page.run(f"dispatchEvent(new KeyboardEvent('keydown', {{key: {key!r}, bubbles: true}}))")


async def read_first(page: DrivenPage, url: str) -> None:
    await page.open(url)
    await page.until(f"{SHOWN} === 'task 0 · repeat 0'")


async def check_rendered(page: DrivenPage) -> None:
    wanted = {
        ".assistant math mfrac": 1,
        ".assistant math .boxed": 1,
        ".assistant td": 2,
        ".assistant pre.code .hl-number": 1,
        ".call .ansi-1": 1,
        ".call .chip.bad.exit": 1,
        ".diff .line.add mark": 1,
        ".judge .verdict": 1,
        ".hops .rest": 1,
        "details.thought": 1,
        ".outline .step-links button": 3,
    }
    found = {name: await page.run(f"document.querySelectorAll('#reading {name}').length") for name in wanted}
    assert found == wanted


async def test_a_rollout_is_rendered_and_shown_as_it_is_written(page: DrivenPage, url: str) -> None:
    await read_first(page, f"{url}?at=x:1")
    await check_rendered(page)
    assert "the rest 138 ms" in await page.text()
    await press(page, "m")
    await page.until("!document.querySelector('#reading math')")
    assert "So \\boxed{7}." in await page.text()
    assert "\\x1b[31mfailed" in await page.text()
    assert page.complaints == []


async def test_the_same_is_shown_by_a_file_without_a_server(page: DrivenPage, file: Path) -> None:
    notes = file.with_name("x_notes.jsonl")
    write_lines(notes, [{"rollout": f"{0:016x}:0", "line": 1, "flag": True, "note": "why 7?"}])
    written = file.with_name("page.html")
    written.write_bytes(embed_rollouts(opened(file)))
    await read_first(page, f"{written.as_uri()}#at=x:1")
    await check_rendered(page)
    assert await page.run("document.querySelector('.note-text').value") == "why 7?"
    assert await page.run("document.querySelector('.flag').disabled")
    assert page.complaints == []


async def test_a_flag_and_a_note_are_stored_beside_the_file(page: DrivenPage, url: str, file: Path) -> None:
    await read_first(page, f"{url}?at=x:1")
    await press(page, "f")
    await page.until("document.querySelector('.flag').getAttribute('aria-pressed') === 'true'")
    await press(page, "c")
    await page.run(
        "(() => { const area = document.activeElement; area.value = 'why 7?'; area.blur(); area.onchange(); })()"
    )
    await page.until("document.querySelector('.note').textContent.includes('stored in x_notes.jsonl')")
    lines = [orjson.loads(line) for line in file.with_name("x_notes.jsonl").read_bytes().splitlines()]
    assert [(line.get("flag"), line.get("note")) for line in lines] == [(True, None), (None, "why 7?")]
    await read_first(page, f"{url}?flagged=1&view=list")
    await page.until("document.querySelectorAll('#rows .row').length === 1")
    assert await page.run("document.querySelector('.note-text').value") == "why 7?"


async def test_two_rollouts_of_a_task_stand_side_by_side(page: DrivenPage, url: str) -> None:
    await read_first(page, f"{url}?at=x:1")
    choose = "(() => { const all = document.querySelector('.head select'); all.value = 'x:2'; all.onchange(); })()"
    await page.run(choose)
    await page.until("!!document.querySelector('#parting')")
    text = await page.text()
    assert "They part at step 3" in text
    assert "The first 2 steps are the same" in text
    assert "beside=x%3A2" in await page.run("location.search")
    shown = "document.querySelectorAll('.beside > div')[1].textContent"
    assert "It is 8." in await page.run(shown)
    await page.open(f"{url}?at=x:1&beside=x:2")
    await page.until("!!document.querySelector('#parting')")
    await press(page, "j")
    await page.until(f"{SHOWN} === 'task 0 · repeat 1' && !document.querySelector('#parting')")
    assert page.complaints == []


async def test_a_case_that_is_copied_is_the_one_that_the_command_writes(
    page: DrivenPage, url: str, file: Path, tmp_path: Path
) -> None:
    for line, key in ((1, f"{0:016x}:0"), (3, f"{1:016x}:0")):
        copied = await case_of(page, f"{url}?at=x:{line}", line)
        found = find_rollout(file, key)
        wanted = rollout_to_case(found, tmp_path / "cases.jsonl", name="", reward=None, oracle=False, steps=False)
        assert copied == wanted


async def case_of(page: DrivenPage, url: str, line: int) -> Any:
    await page.open(url)
    await page.until(f"typeof opened === 'object' && opened.row?.id === 'x:{line}' && opened.body")
    text = await page.run("source.asked(opened.row).then((asked) => JSON.stringify(rolloutToCase(opened.body, asked)))")
    return orjson.loads(text)


async def test_a_curl_command_carries_the_row_and_any_quote(page: DrivenPage, url: str) -> None:
    await read_first(page, f"{url}?at=x:1")
    text = await page.run("rolloutToCurl({ question: \"it's\", response: {}, _ng_task_index: 5 }, null, 'a/b')")
    assert "/s/a%2Fb/run" in text
    assert """-d '{"question":"it'\\''s"}'""" in text
    assert "${GYM_URL:-http://127.0.0.1:11000}/s/" in text
