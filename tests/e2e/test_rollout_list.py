"""The list of rollouts in a real browser: tasks and their repeats, filters in the address, any length, live growth."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest

from gym.console.pages.shell import PageAccess, make_app
from gym.console.viewer import run_files
from gym.console.viewer.app import make_section
from gym.console.viewer.rollout_files import RolloutFiles
from gym.console.viewer.run_files import RunFiles
from gym.server.testing import running
from tests.support.driven_browser import CHROMIUM, DrivenPage, driven
from tests.support.rollout_files import failure, rollout, write_lines

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")]
MANY = 20_000


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[DrivenPage]:
    async with driven(tmp_path / "profile") as opened:
        yield opened


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    rows = [
        rollout(task, repeat, float((task + repeat) % 2) if task == 3 else 1.0)
        for task in range(5)
        for repeat in range(4)
    ]
    write_lines(folder / "today.jsonl", [*rows, rollout(9, 0, 0.25, agent="other", style=0.5)])
    write_lines(folder / "today_failures.jsonl", [failure(3, 7)])
    write_lines(folder / "before.jsonl", [rollout(1, 0, 0.75)])
    return folder


async def state(page: DrivenPage) -> dict[str, list[str]]:
    return parse_qs(urlsplit(str(await page.run("location.href"))).query)


async def ready(page: DrivenPage, status: str) -> None:
    await page.until(f"document.getElementById('status')?.textContent.includes({orjson.dumps(status).decode()})")


async def test_tasks_that_disagree_come_first_and_a_chip_opens_its_repeat(page: DrivenPage, results: Path) -> None:
    async with running(make_app([make_section(RolloutFiles([results]))], PageAccess())) as url:
        await page.open(f"{url}/view/rollouts")
        await ready(page, "7 tasks · 23 lines")
        first = "document.querySelector('.group')"
        assert "task 3 · 5 repeats · mean 0.5 · they differ by 1 · today" in await page.run(f"{first}.innerText")
        chips = await page.run(f"[...{first}.querySelectorAll('.repeat')].map((one) => one.innerText)")
        assert chips == ["1", "0", "1", "0", "timeout"]
        await page.run(f"{first}.querySelectorAll('.repeat')[1].click()")
        await page.until("document.getElementById('reading').innerText.includes('repeat 1')")
        assert (await state(page))["at"] == ["today:14"]
        for key in ("j", "j", "j", "n", "k"):
            await page.run(f"dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}))")
            await page.run("new Promise((done) => setTimeout(done, 30))")
        await page.until("document.querySelectorAll('[data-id][aria-current=true]').length === 1")
        assert page.complaints == []


async def test_filters_combine_in_the_address_which_can_be_sent(page: DrivenPage, results: Path) -> None:
    async with running(make_app([make_section(RolloutFiles([results]))], PageAccess())) as url:
        await page.open(f"{url}/view/rollouts")
        await ready(page, "23 lines")
        await page.run("document.getElementById('more').open = true")
        for name, value in (("run", "today"), ("component", "style"), ("tool", "add")):
            await choose(page, name, value)
        await choose(page, "least", "0.25")
        await ready(page, "1 line matches")
        address = await page.run("location.href")
        found = await state(page)
        assert {name: found[name] for name in ("run", "component", "least", "tool")} == {
            **{"run": ["today"], "component": ["style"], "least": ["0.25"], "tool": ["add"]}
        }
        await page.open("about:blank")
        await page.open(str(address))
        await ready(page, "1 line matches")
        assert await page.run("document.getElementById('component').value") == "style"
        await page.run("document.getElementById('reset').click()")
        await ready(page, "23 lines")
        assert "component" not in await state(page)
        await page.open(f"{url}/view/rollouts?view=list&kind=failed&run=today&run=before")
        await ready(page, "1 line matches")
        assert await page.run("document.querySelector('.row .chip').innerText") == "timeout"
        assert page.complaints == []


async def choose(page: DrivenPage, name: str, value: str) -> None:
    node = f"document.getElementById('{name}')"
    await page.run(f"{node}.value = '{value}'; {node}.dispatchEvent(new Event('input', {{ bubbles: true }}))")
    await page.until(f"new URLSearchParams(location.search).get('{name}') === '{value}'")


async def test_a_list_of_any_length_scrolls_with_few_nodes(page: DrivenPage, tmp_path: Path) -> None:
    line = orjson.dumps(rollout(1)) + b"\n"
    path = tmp_path / "x.jsonl"
    path.write_bytes(line * MANY)
    async with running(make_app([make_section(RolloutFiles([path]))], PageAccess())) as url:
        await page.open(f"{url}/view/rollouts?view=list")
        await ready(page, f"{MANY:,} lines")
        for part in (0.5, 1, 0.25):
            await page.run(
                f"document.getElementById('rows').scrollTop = document.getElementById('rows').scrollHeight * {part}"
            )
            await page.until(
                "(() => { const box = document.getElementById('rows').getBoundingClientRect();"
                "const node = document.elementFromPoint(box.left + 40, box.top + box.height / 2);"
                "return Boolean(node?.closest('.row')); })()"
            )
            assert await page.run("document.querySelectorAll('.row').length") < 80
        await page.run("document.getElementById('rows').scrollTop = document.getElementById('rows').scrollHeight")
        await page.until(f"document.querySelector('.row:last-child')?.dataset.id === 'x:{MANY}'")
        assert page.complaints == []


@pytest.mark.parametrize("width", [400, 1600])
async def test_a_file_that_grows_shows_it_and_leaves_the_reader_where_they_are(
    width: int, page: DrivenPage, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "x.jsonl", [rollout(each) for each in range(300)])
    async with running(make_app([make_section(RolloutFiles([path]))], PageAccess())) as url:
        await page.look(width=width)
        await page.open(f"{url}/view/rollouts?view=list")
        await ready(page, "300 lines")
        await page.run("document.getElementById('rows').scrollTop = 5800")
        await page.until("Boolean(document.querySelector('[data-id=\"x:105\"]'))")
        await page.run("document.querySelector('[data-id=\"x:105\"]').click()")
        await page.until("document.getElementById('reading').innerText.includes('Question 104?')")
        with path.open("ab") as stream:
            stream.write(b"".join(orjson.dumps(rollout(each)) + b"\n" for each in range(300, 350)))
        await ready(page, "350 lines")
        if width < 820:
            await page.run("document.getElementById('back').click()")
            await page.until("document.getElementById('rows').scrollTop === 5800")
        assert await page.run("document.getElementById('rows').scrollTop") == 5800
        assert await page.run("document.querySelector('[aria-current=true]').dataset.id") == "x:105"
        assert "Question 104?" in await page.run("document.getElementById('reading').textContent")
        assert page.complaints == []


async def test_in_another_order_what_is_new_waits_to_be_asked_for(page: DrivenPage, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", [rollout(each, 0, 0.5) for each in range(300)])
    async with running(make_app([make_section(RolloutFiles([path]))], PageAccess())) as url:
        await page.open(f"{url}/view/rollouts?view=list&sort=reward")
        await ready(page, "300 lines")
        await page.run("document.getElementById('rows').scrollTop = 2900")
        with path.open("ab") as stream:
            stream.write(orjson.dumps(rollout(999, 0, 0.0)) + b"\n")
        await page.until("!document.getElementById('fresh').hidden")
        assert await page.run("document.getElementById('rows').scrollTop") == 2900
        await page.run("document.getElementById('fresh').click()")
        await ready(page, "301 lines")
        await page.run("document.getElementById('rows').scrollTop = 0")
        await page.until("document.querySelector('.row').dataset.id === 'x:301'")
        assert page.complaints == []


@pytest.mark.parametrize("asked", ["at=today:3", ""])
async def test_what_is_not_read_yet_opens_by_itself_once_it_is(
    asked: str, page: DrivenPage, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "FIRST_LOOK", 0)
    monkeypatch.setattr(RunFiles, "_start", lambda _: None)  # no thread reads on
    async with running(make_app([make_section(RolloutFiles([results]))], PageAccess())) as url:
        await page.look()
        await page.open(f"{url}/view/rollouts?view=list&{asked}")
        await page.until("document.getElementById('reading').innerText.includes('still being read')")
        monkeypatch.setattr(run_files, "FIRST_LOOK", 1 << 20)
        shown = "task 0 · repeat 2" if asked else "task 1 · repeat 0"
        await page.until(f"document.querySelector('#reading h2')?.textContent === '{shown}'")
        await ready(page, "23 lines")
        assert [one for one in page.complaints if "404" not in one] == []  # a rollout that is not read yet


async def test_the_head_is_of_the_run_that_was_chosen(page: DrivenPage, results: Path) -> None:
    async with running(make_app([make_section(RolloutFiles([results]))], PageAccess())) as url:
        await page.open(f"{url}/view/rollouts?run=before")
        await ready(page, "1 line matches")
        assert await page.run("document.getElementById('name').textContent") == "before.jsonl"
        assert await page.run("document.getElementById('counts').textContent") == "1 rollout · no failures"
        assert await page.run("document.querySelectorAll('.agent').length") == 1
        await page.run("document.getElementById('run').value = ''")
        await page.run("document.getElementById('filters').dispatchEvent(new Event('input'))")
        await page.until("document.getElementById('name').textContent === 'before, today'")
        assert "22 rollouts" in await page.run("document.getElementById('counts').textContent")
        assert page.complaints == []


async def test_the_flagged_are_taken_along_from_the_list(page: DrivenPage, results: Path) -> None:
    async with running(make_app([make_section(RolloutFiles([results]))], PageAccess())) as url:
        await page.open(f"{url}/view/rollouts?run=today&at=today:2")
        await page.until("!!document.querySelector('.flag')")
        assert await page.run("document.getElementById('taken').hidden")
        await page.run("document.querySelector('.flag').click()")
        await page.until("document.querySelector('.flag').getAttribute('aria-pressed') === 'true'")
        await page.open(f"{url}/view/rollouts?run=today&flagged=1")
        await ready(page, "1 line matches")
        taken = await page.run("fetch(document.getElementById('taken').href).then((reply) => reply.text())")
        assert orjson.loads(taken)["_note"]["flag"] is True
        assert await page.run("!document.getElementById('taken').hidden")
