"""The Stack page while a limit holds calls of a model back: the provider's, or the configuration's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from gym.server.testing import running
from gym.testing import GymStack
from tests.support.cli import GYM, environment
from tests.support.driven_browser import CHROMIUM, DrivenPage, driven
from tests.support.fake_openai import FakeOpenAI

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")]
ROWS, PLACES = 24, 3
WIDTHS = (400, 1600)
SIDEWAYS = "document.documentElement.scrollWidth - innerWidth"
TILES = "[...document.querySelectorAll('.tile')]"
HELD = f"Number({TILES}.find((one) => one.innerText.includes('Held back')).querySelector('b').innerText)"
WARNINGS = "document.getElementById('warnings').innerText"
CONFIG = """
busy_model:
  responses_api_models:
    openai:
      entrypoint: app.py
      openai_base_url: {url}
      openai_api_key: none
      openai_model: busy
      {limit}
busy_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {{type: resources_servers, name: mcqa}}
      model_server: {{type: responses_api_models, name: busy_model}}
"""


class SlowProvider:
    """Answers when it is let go; who comes while its places are taken is refused."""

    def __init__(self, places: float) -> None:
        self.places = places
        self.taken = self.refused = 0
        self.let_go = asyncio.Event()
        self._inside = FakeOpenAI()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or scope["method"] == "GET":
            await self._inside(scope, receive, send)
        elif self.taken >= self.places:
            self.refused += 1
            headers = [(b"content-type", b"application/json"), (b"retry-after", b"0.2")]
            await send({"type": "http.response.start", "status": 429, "headers": headers})
            await send({"type": "http.response.body", "body": b'{"error": {"message": "too many at once"}}'})
        else:
            self.taken += 1
            try:
                await self.let_go.wait()
                await self._inside(scope, receive, send)
            finally:
                self.taken -= 1


@asynccontextmanager
async def collecting(folder: Path, provider: SlowProvider, limit: str = "") -> AsyncIterator[tuple[str, str]]:
    """(the address of the stack, that of the provider) while rollouts are collected; each of them must end well."""
    async with running(provider) as url:
        (folder / "busy.yaml").write_text(CONFIG.format(url=f"{url}/v1", limit=limit))
        async with GymStack("mcqa", runtime="local", folder=folder).with_config(folder / "busy.yaml") as stack:
            collector = await asyncio.create_subprocess_exec(
                *(GYM, "rollouts", str(write_rows(folder / "in.jsonl")), "-o", str(folder / "X.jsonl")),
                cwd=folder,
                env=environment(),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                yield stack.url, urlsplit(url).netloc
                async with asyncio.timeout(240):
                    assert await collector.wait() == 0
            finally:
                if collector.returncode is None:
                    collector.kill()
            assert len((folder / "X.jsonl").read_bytes().splitlines()) == ROWS
            assert not (folder / "X_failures.jsonl").read_bytes()


def write_rows(path: Path) -> Path:
    asked = {"input": [{"role": "user", "content": "Answer in \\boxed{}."}]}
    facts = {"options": [{"A": "x"}, {"B": "y"}], "expected_answer": "A", "agent_ref": {"name": "busy_agent"}}
    rows = [{"responses_create_params": asked, **facts, "number": number} for number in range(ROWS)]
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[DrivenPage]:
    async with driven(tmp_path / "profile") as opened:
        yield opened


async def test_the_stack_page_says_which_provider_holds_how_many_calls_back(page: DrivenPage, tmp_path: Path) -> None:
    provider = SlowProvider(PLACES)
    async with collecting(tmp_path, provider) as (url, host):
        await page.open(f"{url}/view/stack")
        await page.until(f"{HELD} > {ROWS // 2} && {WARNINGS}.includes('calls wait; {host} refused')")
        await look(page, tmp_path / "held")
        await page.until("document.getElementById('collections').innerText.includes('held back: busy_model')")
        provider.let_go.set()
        await page.until(f"{HELD} === 0")
        assert provider.refused
        assert not page.complaints  # while its stack is up: later it asks in vain


async def test_the_stack_page_says_how_many_calls_wait_for_the_limit_of_the_configuration(
    page: DrivenPage, tmp_path: Path
) -> None:
    provider = SlowProvider(float("inf"))
    async with collecting(tmp_path, provider, f"max_concurrent_requests: {PLACES}") as (url, host):
        await page.open(f"{url}/view/stack")
        await page.until(f"{HELD} === {ROWS - PLACES}")
        said = f"busy_model: {ROWS - PLACES} calls wait; as many as may be are under way at {host}"
        assert said in await page.run(WARNINGS)
        await look(page, tmp_path / "waiting")
        provider.let_go.set()
        await page.until(f"{HELD} === 0 && !{WARNINGS}")
        assert not provider.refused
        assert not page.complaints


async def look(page: DrivenPage, stem: Path) -> None:
    for width in WIDTHS:
        await page.look(width=width)
        await page.until(f"innerWidth === {width}")
        assert await page.run(SIDEWAYS) <= 0
        await page.screenshot(stem.with_name(f"{stem.name}-{width}.png"))
