"""An environment in a real browser: found, read, and tried by a person over a real resources server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from gym.server.testing import running
from tests.support.driven_browser import CHROMIUM, DrivenPage, driven
from tests.support.tried_stack import ROW, CountingServer, GuessingServer, console_to_try, write_environment
from tests.support.xss import ALL, CLICK_EVERYTHING, STRANGE, TEXTS

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")]
BEGIN = "[...document.querySelectorAll('.begin button')].find((one) => one.textContent === 'Begin')"
CALL = "document.querySelector('.tool-form')"
ANSWER = "document.querySelector('.answer')"
SAY = "document.querySelector('.your-turn .assistant button')"


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[tuple[str, DrivenPage]]:
    root = tmp_path / "root"
    for name in ("counting", "guessing"):
        write_environment(root, name)
    write_environment(root, "silent", readme="# silent\n\nRuns nowhere.\n")
    async with (
        running(CountingServer.app()) as counting,
        running(GuessingServer.app()) as guessing,
        console_to_try(tmp_path, {"counting": counting, "guessing": guessing}, root) as url,
        driven(tmp_path / "profile") as page,
    ):
        yield url, page


async def choose(page: DrivenPage, part: str) -> None:
    await page.until(f"!!document.querySelector('[data-part={part}]')")
    await page.run(f"document.querySelector('[data-part={part}]').click()")


async def begin(page: DrivenPage) -> None:
    await page.until(f"!!{BEGIN}")
    await page.run(f"{BEGIN}.click()")
    await page.until(f"!!{ANSWER}")


async def test_an_environment_is_found_read_and_tried(tmp_path: Path) -> None:
    async with opened(tmp_path) as (url, page):
        await page.open(f"{url}/view/environments?find=runs+nowhere")
        await page.until("document.querySelectorAll('.catalogue .row').length === 1")
        await page.run("$('find').value = 'coun'; $('find').dispatchEvent(new Event('input'))")
        await page.until("document.querySelector('.catalogue .row h2').textContent === 'counting'")
        assert "find=coun" in await page.run("location.search")
        await page.run("document.querySelector('.catalogue a').click()")
        await page.until("document.querySelectorAll('.readme table td').length === 2")
        for part, text in (("cases", "no calls"), ("figures", "mean/reward"), ("tools", "Adds a number.")):
            await choose(page, part)
            await page.until(f"$('part').innerText.includes({text!r})")
        await choose(page, "try")
        await begin(page)
        assert await page.run("document.querySelector('.said.user strong').textContent") == "3"
        await page.run(f"{ANSWER}.value = 'done'; {ANSWER}.dispatchEvent(new Event('input'))")
        await page.run(f"{CALL}.querySelector('input').value = 'many'; {CALL}.requestSubmit()")
        await page.until(f"{CALL}.innerText.includes('number: a whole number is needed')")
        await page.run(f"{CALL}.querySelector('input').value = '4'; {CALL}.requestSubmit()")
        await page.until("document.querySelectorAll('.said.call').length === 1")
        await page.run(f"{CALL}.querySelector('input').value = '1'; {CALL}.querySelector('select').value = '\"down\"'")
        await page.run(f"{CALL}.requestSubmit()")
        await page.until("document.querySelectorAll('.said.call').length === 2")
        assert await page.run(f"{ANSWER}.value") == "done"  # a call loses nothing of what is typed
        await page.send("Page.reload")
        await page.until(f"!!{ANSWER} && document.querySelectorAll('.said.call').length === 2")
        await page.run(f"{ANSWER}.value = 'done'; {SAY}.click()")
        await page.until("document.querySelector('.chip.reward')?.textContent === 'reward 0.75'")
        assert page.complaints == []


async def test_a_reason_a_failure_and_an_environment_of_steps_are_shown(tmp_path: Path) -> None:
    async with opened(tmp_path) as (url, page):
        await page.open(f"{url}/view/environments?{urlencode({'name': 'counting', 'part': 'try'})}")
        await begin(page)
        await page.run(f"{ANSWER}.value = 'done'; {SAY}.click()")
        await page.until("$('part').innerText.includes('counted 0')")
        assert await page.run("document.querySelector('.chip.reward').textContent") == "reward 0"
        await page.open(f"{url}/view/environments?{urlencode({'name': 'counting', 'part': 'try'})}")
        await page.until(f"!!{BEGIN}")
        row = str(ROW | {"goal": -1}).replace("'", '"')
        await page.run("document.querySelector('.begin select').value = 'own'")
        await page.run(f"document.querySelector('.own-row').value = {row!r}; {BEGIN}.click()")
        await page.until(f"!!{ANSWER}")
        await page.run(f"{ANSWER}.value = 'done'; {SAY}.click()")
        await page.until("$('part').innerText.includes('Failure: sandbox')")
        assert await page.run("document.querySelector('.chip.reward') === null")
        await page.open(f"{url}/view/environments?{urlencode({'name': 'guessing', 'part': 'try'})}")
        await begin(page)
        for text, shown in (("3", "reward so far 0.25"), ("7", "reward 1.25")):
            await page.run(f"{ANSWER}.value = '{text}'; {SAY}.click()")
            await page.until(f"$('part').innerText.includes('{shown}')")
        await page.open(f"{url}/view/environments?{urlencode({'name': 'silent', 'part': 'try'})}")
        await page.until("$('part').innerText.includes('gym up silent')")
        assert page.complaints == []


async def test_no_text_of_an_environment_or_its_server_runs(tmp_path: Path) -> None:
    root, name = tmp_path / "root", "hostile"
    tools = [
        {"type": "function", "name": "add", "description": ALL, "parameters": {"properties": {ALL: {"enum": [ALL]}}}},
        {"type": "function", "name": ALL, "parameters": ALL},
    ]
    given = {"instructions": ALL, "input": [{"role": "user", "content": ALL}], "tools": tools}
    write_environment(root, name, readme="\n\n".join(("# x", *TEXTS)), row={"responses_create_params": given, ALL: ALL})
    async with (
        running(CountingServer.app()) as server,
        console_to_try(tmp_path, {name: server}, root) as url,
        driven(tmp_path / "profile") as page,
    ):
        for part in ("readme", "rows", "tools", "cases", "figures", "try"):
            await page.open(f"{url}/view/environments?{urlencode({'name': name, 'part': part})}")
            await page.until("$('part')?.innerText.trim().length > 20")
            if part == "try":
                await begin(page)
            await page.run(CLICK_EVERYTHING.replace("TYPED", repr(TEXTS[1])))
            assert await page.run("window.wasOwned") is None, part
            assert await page.run(STRANGE) == [], part
            assert page.dialogs == [], part
        refused = [one for one in page.complaints if "Content Security Policy" in one or "exception" in one.lower()]
        assert refused == []
        assert {urlsplit(one).netloc for one in page.requests if "://" in one} == {urlsplit(url).netloc}
