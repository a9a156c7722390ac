"""What a page of another site, another name of this machine, or an odd address gets of the pages: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gym.console.pages.shell import PageAccess, make_app
from gym.console.run_sections import make_run_sections
from gym.console.viewer.run_files import RunFiles
from gym.server.testing import Caller, running
from tests.support.rollout_files import rollout, write_lines
from tests.support.router import ask
from tests.unit.console.conftest import Visitor

SECRET = "the answer is 42"
PLACES = ("", "/row", "/asked", "/problem")
OUTSIDE = (
    "../secret",
    "..%2Fsecret",
    "%2e%2e/secret",
    "%2Fsecret",
    "link",
    "folder/secret",
    "a/../../secret",
    "secret%00",
)


@pytest.mark.parametrize("path", ["/view/stack", "/view/api/stack/overview", "/view/api/stack/config"])
async def test_a_page_of_another_site_gets_nothing(path: str, visitor: Visitor) -> None:
    assert (await visitor.get(path, origin="http://evil.example")).status == 403
    assert (await visitor.get(path, host="evil.example")).status == 403
    assert (await visitor.get(path, sec_fetch_site="cross-site", sec_fetch_mode="no-cors")).status == 403
    assert (await visitor.get(path, origin=visitor.url)).status == 200


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    results, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    results.mkdir()
    elsewhere.mkdir()
    for path in (tmp_path / "secret.jsonl", elsewhere / "secret.jsonl"):
        write_lines(path, [rollout(1, note=SECRET)])
    write_lines(results / "a.jsonl", [rollout(1)])
    (results / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (results / "folder").symlink_to(elsewhere)
    runs = RunFiles([results])
    async with running(make_app(make_run_sections(runs), PageAccess())) as url, Caller(url) as made:
        summary = await made.get("/view/api/rollouts/summary")
        assert [one["name"] for one in summary.body["runs"]] == ["a"]
        yield made
    runs.close()


async def test_rollouts_of_the_folder_are_shown(caller: Caller) -> None:
    assert (await caller.get("/view/api/rollouts/rollout/a:1")).status == 200


@pytest.mark.parametrize("name", OUTSIDE)
async def test_no_address_and_no_link_leads_out_of_the_results_folder(name: str, caller: Caller) -> None:
    for place in PLACES:
        assert SECRET.encode() not in await ask_raw(caller.url, f"/view/api/rollouts/rollout/{name}:1{place}")
    assert SECRET.encode() not in await ask_raw(caller.url, f"/view/api/rollouts/list?run={name}")


async def ask_raw(url: str, path: str) -> bytes:
    return (await asyncio.to_thread(ask, url, path)).body
