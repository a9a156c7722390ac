"""/docs of a server in a real browser: what it takes, tried out, with nothing fetched from elsewhere."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gym.server.base import Server, ServerApp
from gym.server.testing import Caller, running
from tests.support.driven_browser import CHROMIUM, driven
from tests.support.xss import ALL, CLICK_EVERYTHING, STRANGE


class Documented(Server):
    server_type = "resources_servers"


def app() -> ServerApp:
    return Documented.app({"description": ALL}, name="documented")


async def test_nothing_but_its_own_files_may_run_and_none_else_is_served() -> None:
    async with running(app()) as url, Caller(url) as caller:
        page = await caller.get("/docs")
        missing = [(await caller.get(path)).status for path in ("/redoc", "/docs/page.py", "/docs/..%2fbase.py")]
    assert b"default-src 'none'; script-src 'self'" in dict(page.reply.headers)[b"content-security-policy"]
    assert missing == [404, 404, 404]


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
async def test_a_route_is_tried_and_no_description_becomes_markup(tmp_path: Path) -> None:
    async with running(app()) as url, driven(tmp_path / "profile") as page:
        await page.open(f"{url}/docs")
        await page.until("document.querySelectorAll('details').length > 0")
        assert "onerror" in await page.run("$('about').textContent")
        await page.run("document.querySelector('details').open = true")
        await page.until("document.querySelector('button') !== null")
        await page.run("document.querySelector('button').click()")
        await page.until("document.querySelector('pre')?.textContent.includes('documented')")
        await page.run(CLICK_EVERYTHING.replace("TYPED", "'<img src=x onerror=window.wasOwned=1>'"))
        assert await page.run("window.wasOwned") is None
        assert await page.run(STRANGE) == []
        assert {urlsplit(one).netloc for one in page.requests} == {urlsplit(url).netloc}
        assert page.complaints == []
