"""The page in a real browser, where there is one."""

from __future__ import annotations

import asyncio
import html
import re
import shutil
from pathlib import Path

import orjson
import pytest

from tests.support.router import Backend
from tests.unit.console.conftest import Bench, Visitor

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
async def test_a_browser_shows_servers_states_and_how_to_call_them(
    bench: Bench, visitor: Visitor, backends: list[Backend], tmp_path: Path
) -> None:
    bench.show({"mcqa": [backends[0].url, "http://127.0.0.1:9"], "mcqa_simple_agent": [backends[1].url]})
    dom, complaints = await _browse(f"{visitor.url}/", tmp_path)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", dom.partition("<body>")[2].partition("<script>")[0]))
    assert "1 of 5 healthy" in text
    assert "mcqa-2 down" in text
    assert "simple_agent · uses mcqa, policy_model" in text
    assert text.count("mcqa_simple_agent") >= 2
    assert "Content Security Policy" not in complaints


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
async def test_the_docs_page_says_how_to_call_the_stack_under_its_own_address(
    bench: Bench, visitor: Visitor, backends: list[Backend], tmp_path: Path
) -> None:
    bench.show({"mcqa_simple_agent": [backends[1].url]})
    dom, complaints = await _browse(f"{visitor.url}/view/docs", tmp_path)
    assert f"curl '{visitor.url}/s/mcqa_simple_agent/run'" in dom
    assert complaints.count("Content Security Policy") == 0


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
async def test_what_a_server_says_of_itself_is_text_and_nothing_else(
    bench: Bench, visitor: Visitor, tmp_path: Path
) -> None:
    bench.show({"mcqa": ["http://<img src=x onerror=alert(1)>:9"]})
    dom, _ = await _browse(f"{visitor.url}/", tmp_path)
    assert "<img" not in dom
    assert "mcqa-1" in dom


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
async def test_a_browser_shows_a_running_collection_with_its_bar(
    bench: Bench, visitor: Visitor, tmp_path: Path
) -> None:
    bench.show({})
    progress = {"done": 30, "failed": 2, "total": 64, "in_flight": 8, "rate": 12.5, "mean_reward": 0.5}
    run = {"id": "run-1", "output": "<b>X</b>.jsonl", "host": "here", "pid": 7}
    heartbeat = {**run, "progress": {**progress, "eta_seconds": 3.0, "failures": {"model": 2}}}
    assert (await visitor.post("/collections", orjson.dumps(heartbeat))).status == 204
    dom, complaints = await _browse(f"{visitor.url}/", tmp_path)
    shown = dom.partition("<body>")[2].partition("<script>")[0]
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", shown)))
    assert "Collecting now" in text
    assert "32 of 64 · 8 in flight" in text
    assert "reward 0.500 · 12.5/s · 3 s left" in text
    assert "2 failed: model 2" in text
    assert '<progress max="64" value="32">' in shown
    assert "<b>X" not in shown
    assert "Content Security Policy" not in complaints


async def _browse(url: str, profile: Path) -> tuple[str, str]:
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=3000")
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *options,
        f"--user-data-dir={profile / 'browser'}",
        "--dump-dom",
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(300):
        dom, complaints = await process.communicate()
    return dom.decode(), complaints.decode()
