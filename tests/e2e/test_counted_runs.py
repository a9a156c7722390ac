"""Pages of long runs in a real browser: what is still being counted says so, and becomes whole by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym.console.compare import comparisons, run_side
from gym.console.pages.shell import PageAccess, make_app
from gym.console.run_sections import make_run_sections
from gym.console.runs import run_board, run_tally
from gym.console.viewer.run_files import RunFiles
from gym.server.testing import running
from tests.support.driven_browser import CHROMIUM, DrivenPage, driven
from tests.support.rollout_files import failure, rollout, write_lines

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")]
LINES = 600


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[DrivenPage]:
    async with driven(tmp_path / "profile") as opened:
        yield opened


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs of which each question counts a few lines."""
    for module in (run_board, comparisons):
        monkeypatch.setattr(module, "MOMENT", 0)
    monkeypatch.setattr(run_tally, "SLICE", 30)
    monkeypatch.setattr(run_side, "STEP", 30)
    folder = tmp_path / "results"
    folder.mkdir()
    for name, shift in (("before", 0), ("after", 1)):
        rows = [rollout(each // 4, each % 4, ((each + shift) % 7) / 6, accuracy=each % 3) for each in range(LINES)]
        write_lines(folder / f"{name}.jsonl", rows)
    write_lines(folder / "before_failures.jsonl", [failure(each, 0, "timeout") for each in range(9)])
    return folder


@pytest.mark.parametrize("width", [400, 1600])
async def test_a_run_that_is_counted_says_so_and_becomes_whole(width: int, page: DrivenPage, results: Path) -> None:
    app = make_app(make_run_sections(RunFiles([results])), PageAccess())
    async with running(app) as url:
        await page.look(width=width)
        await page.open(f"{url}/view/runs?run=before")
        await page.until("/Counting: [1-9][0-9]* of 609 rollouts/.test(document.body.innerText)")
        assert await page.run("document.querySelector('.counting progress').max") == 609
        assert "mean reward" in await page.text()
        assert await page.run("document.documentElement.scrollWidth <= innerWidth")
        await page.screenshot(results.parent / "counting.png")
        await page.until("document.querySelectorAll('.chart').length >= 3 && !document.querySelector('.counting')")
        await page.until("document.body.innerText.includes('1 to 50 of 150')")
        await page.screenshot(results.parent / "whole.png")
        assert "600" in await page.run("document.querySelector('.facts').innerText")
        assert not page.complaints


@pytest.mark.parametrize("width", [400, 1600])
async def test_a_comparison_that_is_counted_says_so_and_becomes_whole(
    width: int, page: DrivenPage, results: Path
) -> None:
    app = make_app(make_run_sections(RunFiles([results])), PageAccess())
    async with running(app) as url:
        await page.look(width=width)
        await page.open(f"{url}/view/compare?run=before&run=after")
        await page.until("/Counting: [1-9][0-9,]* of 1,200 rollouts/.test(document.body.innerText)")
        await page.screenshot(results.parent / "counting.png")
        assert not await page.run("document.querySelector('.verdict')")
        await page.until("document.querySelectorAll('.verdict').length === 1 && !document.querySelector('.counting')")
        await page.screenshot(results.parent / "whole.png")
        assert not page.complaints


async def test_runs_chosen_while_others_are_still_counted_are_compared(page: DrivenPage, results: Path) -> None:
    write_lines(results / "third.jsonl", [rollout(each, 0, 1.0) for each in range(40)])
    app = make_app(make_run_sections(RunFiles([results])), PageAccess())
    async with running(app) as url:
        await page.open(f"{url}/view/compare?run=before&run=after")
        await page.until("document.body.innerText.includes('Counting:')")
        await page.run("state.runs = ['third', 'before']; go()")
        await page.until("document.body.innerText.includes('Waiting: another comparison is counted first.')")
        await page.until("document.querySelectorAll('.verdict').length === 1 && !document.querySelector('.counting')")
        assert "before looks worse" in await page.text() or "before is worse" in await page.text()
        assert not page.complaints
