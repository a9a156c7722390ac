"""What a rollout may hold at worst, opened and read in a real browser: the page says so and stays up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym.console.pages.shell import PageAccess, make_app
from gym.console.viewer.app import make_section
from gym.console.viewer.rollout_files import RolloutFiles
from gym.server.testing import running
from tests.support.driven_browser import CHROMIUM, DrivenPage, driven
from tests.support.rollout_files import rollout, write_lines

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")]
STEPS = 10_000
NOON = 1_700_000_000.0  # 22:13:20 in UTC


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[DrivenPage]:
    async with driven(tmp_path / "profile") as opened:
        yield opened


def many_steps() -> dict[str, object]:
    row = rollout(0)
    pairs = (
        [
            {"type": "function_call", "call_id": f"c{each}", "name": "run", "arguments": json.dumps({"n": each})},
            {"type": "function_call_output", "call_id": f"c{each}", "output": f"done {each}"},
        ]
        for each in range(STEPS)
    )
    row["response"]["output"] = [one for pair in pairs for one in pair]
    return row


def with_output(task: int, output: str) -> dict[str, object]:
    row = rollout(task)
    call = {"type": "function_call", "call_id": "c", "name": "run", "arguments": "{}"}
    row["response"]["output"] = [call, {"type": "function_call_output", "call_id": "c", "output": output}]
    return row


async def says(page: DrivenPage, text: str) -> None:
    await page.until(f"document.body.innerText.includes({json.dumps(text)})")


async def test_each_is_shown_and_the_next_one_after_it(page: DrivenPage, tmp_path: Path) -> None:
    binary = "".join(map(chr, range(32))) + "\ufffd" * 40 + "\u202e after all that"
    late = rollout(3)
    late["_gym"]["started"] = NOON
    rows = [many_steps(), with_output(1, "x" * (50 << 20)), with_output(2, binary), late]
    path = write_lines(tmp_path / "x.jsonl", [*rows, b'{"half": '])
    files = RolloutFiles([path])
    files.refresh(whole=True)
    await page.send("Emulation.setTimezoneOverride", timezoneId="Pacific/Auckland")
    async with running(make_app([make_section(files)], PageAccess())) as url:
        await page.open(f"{url}/view/rollouts?at=x:1")
        await says(page, "done 9")
        assert await page.run("document.querySelectorAll('*').length") < 5_000
        await page.open(f"{url}/view/rollouts?at=x:2")
        await says(page, "52,428,800 characters")
        await page.open(f"{url}/view/rollouts?at=x:3")
        await says(page, "Binary: 88 characters that are not text")
        await page.open(f"{url}/view/rollouts?at=x:4")
        await says(page, "11/15/2023")
        write_lines(path, [rollout(9)])
        await page.open(f"{url}/view/rollouts?at=x:4")
        await says(page, "1 line")
        path.unlink()
        await page.open(f"{url}/view/rollouts")
        await says(page, f"{path} is not there any more")
    assert [one for one in page.complaints if "exception" in one.lower()] == []
