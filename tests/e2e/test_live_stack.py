"""A person before a real stack: from page to page by the menu while it works, and when it is gone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gym.testing import GymStack
from tests.support.cli import gym
from tests.support.driven_browser import CHROMIUM, DrivenPage, driven

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")]
SECTIONS = ["Stack", "Runs", "Rollouts", "Compare", "Environments", "Docs"]
WIDTHS = (400, 1600)
SIDEWAYS = "document.documentElement.scrollWidth - innerWidth"
SMALLEST = """Math.min(...[...document.querySelectorAll('.chart')].map((one) =>
    11 * one.getBoundingClientRect().width / one.viewBox.baseVal.width))"""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[GymStack]:
    with GymStack("simple_weather", "mcqa", runtime="local", folder=tmp_path) as stack:
        for name in ("first", "second"):
            collect(tmp_path, name)
        yield stack


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[DrivenPage]:
    async with driven(tmp_path / "profile") as opened:
        yield opened


def collect(folder: Path, name: str) -> None:
    done = gym("rollouts", "mcqa", "-o", f"results/{name}.jsonl", "--repeats", "4", cwd=folder)
    assert done.returncode == 0, done.stderr


async def choose(page: DrivenPage, name: str) -> None:
    """By the menu, as a person does."""
    links = "[...document.querySelectorAll('#menu a')]"
    await page.run(f"{links}.find((one) => one.textContent === {json.dumps(name)}).click()")
    await page.until(f"document.querySelector('#menu a[aria-current]')?.textContent === {json.dumps(name)}")


async def follow(page: DrivenPage, address: str) -> None:
    link = f"document.querySelector('main a[href*={json.dumps(address)}]')"
    await page.until(f"{link} !== null")
    await page.run(f"{link}.click()")


async def says(page: DrivenPage, text: str) -> None:
    await page.until(f"document.body.innerText.toLowerCase().includes({json.dumps(text.lower())})")


async def test_six_views_of_a_stack_that_works_and_then_is_gone(page: DrivenPage, stack: GymStack) -> None:
    await page.open(stack.url)
    assert await page.run("[...document.querySelectorAll('#menu a')].map((one) => one.textContent)") == SECTIONS
    await look_at_stack(page, stack.folder)
    await choose(page, "Runs")
    await says(page, "second")
    await follow(page, "run=first")
    await says(page, "PASS@K")
    await fits(page)
    await choose(page, "Rollouts")
    await page.until("document.querySelectorAll('.group').length > 0")
    await fits(page)
    await page.open(f"{stack.url}/view/compare?run=first&run=second")
    await says(page, "chance")
    await fits(page)
    await choose(page, "Environments")
    await follow(page, "name=mcqa")
    await says(page, "all environments")
    await says(page, "verifier")
    await fits(page)
    await choose(page, "Docs")
    await says(page, "gym rollouts")
    await fits(page)
    await choose(page, "Stack")
    await says(page, "all healthy")
    gym("down", cwd=stack.folder)
    await says(page, "What you see is old. Is the stack still up? gym ps")
    assert "mcqa_simple_agent" in await page.text()
    assert [one for one in page.complaints if "exception" in one.lower()] == []


async def look_at_stack(page: DrivenPage, folder: Path) -> None:
    await page.until("document.querySelectorAll('#servers .server').length === 5")
    await says(page, "figures of the last")
    collect(folder, "second-half")
    rate = "document.querySelector('#server-mcqa_simple_agent .figures dd').textContent"
    await page.until(f"{rate} !== '–' && {rate} !== '0/s'")
    figures = await page.run(
        "[...document.querySelectorAll('#server-mcqa_simple_agent dt')].map((one) => one.textContent)"
    )
    assert figures == ["calls", "p50", "p95", "errors", "in flight", "memory", "CPU"]
    assert "\u00a0MB" in await page.run("document.querySelector('#server-mcqa .figures').textContent")
    assert "digest" in await page.run("document.querySelector('#server-mcqa').textContent")
    typed = "$('log-text').dispatchEvent(new Event('input', { bubbles: true }))"
    await page.run(f"$('log-name').value = 'mcqa-1'; $('log-text').value = 'ready'; {typed}")
    await page.until("document.querySelectorAll('#log-lines mark').length > 0")
    assert "find=ready" in await page.run("location.search")
    await page.run("$('config').open = true")
    await page.until("$('config-text').textContent.includes('simple_agent')")
    await fits(page)


async def fits(page: DrivenPage) -> None:
    """Wide or narrow, light or dark: nothing to scroll sideways for, and no number too small to read."""
    await page.until("document.readyState === 'complete'")
    for width in WIDTHS:
        for dark in (False, True):
            await page.look(width=width, dark=dark)
            assert await page.run(SIDEWAYS) <= 0, (width, await page.run("location.href"))
    await page.look(width=WIDTHS[0])
    await page.run("location.reload()")
    await page.until("document.readyState === 'complete' && $('main').innerText.trim().length > 20")
    assert not await page.run("document.querySelector('.chart') && " + SMALLEST + " < 9")
    await page.look()
