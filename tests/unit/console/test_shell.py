"""The shell of all pages: its policy, its static files, who may see it, and what no script of ours may do."""

from __future__ import annotations

import asyncio
import base64
import http.client
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import gym
from gym.console.guide.guide_section import GUIDE
from gym.console.pages.shell import POLICY, PageAccess, Section, fill_file, fill_shell, make_app
from gym.console.stack.stack_section import SCRIPTS
from gym.server.testing import Caller, running

STACK = Section("stack", "Stack & <Co>", "gym.console.stack", SCRIPTS)
SECTIONS = (STACK, GUIDE)
OUTSIDE = (
    *("/view/static/pages/shell.py", "/view/static/pages/shell.html", "/view/static/stack/stack_view.py"),
    *("/view/static/pages/..%2Fshell.html", "/view/static/pages/%2e%2e/shell.html", "/view/static/..%2f..%2f/x"),
    *("/view/static/pages/%2Fetc%2Fpasswd", "/view/static/none/base.css", "/view/static/pages/base.css%00.js"),
)
# What turns text into markup or code.
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc"
    r"|\beval\(|new Function"
)


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    async with running(make_app(SECTIONS, PageAccess())) as url, Caller(url) as made:
        yield made


async def asked(url: str, path: str, **headers: str) -> tuple[int, dict[str, str]]:
    """The path goes out as it is."""
    return await asyncio.to_thread(_asked, url, path, headers)


def _asked(url: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.request("GET", path, headers=headers)
    reply = connection.getresponse()
    connection.close()
    return reply.status, {name.lower(): value for name, value in reply.getheaders()}


async def test_a_page_runs_and_fetches_nothing_but_its_own(caller: Caller) -> None:
    reply = await caller.get("/view/stack")
    headers = dict(reply.reply.headers)
    assert headers[b"content-security-policy"].decode() == POLICY
    assert "'unsafe" not in POLICY
    html = reply.reply.body.decode()
    assert not re.search(r"<script(?! src=)|<style|\son\w+=|\sstyle=", html)
    assert "Stack &amp; &lt;Co&gt;" in html


async def test_what_a_page_names_is_served_and_not_again_while_it_is_the_same(caller: Caller) -> None:
    html = fill_shell(STACK, SECTIONS, PageAccess())
    named = re.findall(r'(?:src|href)="(/view/static/[^"]+)"', html)
    assert len(named) == len(SCRIPTS) + 3
    for path in named:
        first = await caller.get(path)
        etag = dict(first.reply.headers)[b"etag"].decode()
        assert first.status == 200
        assert (await asked(caller.url, path, **{"if-none-match": etag}))[0] == 304


@pytest.mark.parametrize("path", OUTSIDE)
async def test_no_address_reaches_a_file_that_no_page_names(path: str, caller: Caller) -> None:
    assert (await asked(caller.url, path))[0] == 404


async def test_without_a_token_it_answers_to_this_machines_own_names_alone(caller: Caller) -> None:
    assert (await asked(caller.url, "/view/docs", host="evil.example"))[0] == 400
    assert (await asked(caller.url, "/view/docs", host="localhost:1"))[0] == 200


@pytest.mark.parametrize("path", ["/", "/view/docs", "/view/static/pages/base.js", "/view/api/stack/overview"])
async def test_with_a_token_nothing_is_shown_to_who_has_none(path: str) -> None:
    async with running(make_app(SECTIONS, PageAccess("hush"))) as url:
        status, headers = await asked(url, path)
        assert (status, "basic" in headers["www-authenticate"].lower()) == (401, True)
        assert (await asked(url, path, authorization="Bearer other"))[0] == 401
        password = base64.b64encode(b"any:hush").decode()
        for good in ("Bearer hush", f"Basic {password}"):
            assert (await asked(url, path, authorization=good))[0] != 401


def test_no_script_of_ours_turns_text_into_markup() -> None:
    found = [
        f"{path}:{number}"
        for path in sorted(Path(gym.__file__).parent.rglob("*.js"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if MARKUP.search(line)
    ]
    assert found == []


def test_no_page_names_an_address_elsewhere() -> None:
    parts = [path for kind in ("*.js", "*.css", "*.html") for path in Path(gym.__file__).parent.rglob(kind)]
    found = [
        str(path)
        for path in parts
        if re.search(r"""(?:src|href|url\()\s*=?\s*["']?(?:https?:)?//""", path.read_text("utf-8"))
    ]
    assert found == []


def test_a_page_of_its_own_has_all_its_parts_inside() -> None:
    html = fill_file(GUIDE)
    assert "/view/static/" not in html
    assert "function fetchJson" in html
    assert 'id="menu"' not in html
