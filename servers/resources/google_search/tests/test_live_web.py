"""The live web against a server of our own: pages, limits, and every way to a forbidden address."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from app import GoogleSearch
from guard import Guard, Refused
from page_text import ENDS, extract, shorten

from gym.errors import UserError
from gym.server.testing import Caller, running

KEY = "a-key-that-no-reply-may-show"
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Site:
    """ASGI: what stands in `pages`, each `(status, headers, body)`; `asked` is what was asked for."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        self.asked.append(f"{scope['path']}?{scope['query_string'].decode()}")
        status, headers, body = self.pages.get(scope["path"], (404, {}, b"gone"))
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})

    async def _live(self, receive: Any, send: Send) -> None:
        for state in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{state}.complete"})

    def html(self, path: str, body: str | bytes, **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = (200, {"content-type": "text/html", **given}, data)

    def redirect(self, path: str, target: str) -> None:
        self.pages[path] = (302, {"location": target}, b"")


@asynccontextmanager
async def live(site: Site, **fields: Any) -> AsyncIterator[tuple[Caller, str]]:
    async with running(site) as there:
        config = {"google_api_key": KEY, "google_cx": "cx", "search_url": f"{there}/api", **fields}
        async with running(GoogleSearch.app(config, name="google_search")) as url, Caller(url) as caller:
            yield caller, there


async def browse(caller: Caller, address: str) -> str:
    reply = await caller.post("/browse", {"url": address})
    assert reply.status == 200
    text: str = reply.body["page_content"]
    return text


INSIDE = {"allowed_networks": ["127.0.0.1/32"]}


async def test_a_search_is_the_reply_of_the_api() -> None:
    site = Site()
    site.pages["/api"] = (200, {"content-type": "application/json"}, json.dumps({"items": [{"title": "ü"}]}).encode())
    async with live(site) as (caller, _):
        reply = await caller.post("/search", {"query": "a b&c"})
        assert (await caller.get("/healthz")).body["web"] == "live"
    assert reply.body == {"search_results": '{"items": [{"title": "\\u00fc"}]}'}
    assert site.asked == [f"/api?key={KEY}&cx=cx&q=a+b%26c"]


@pytest.mark.parametrize(("status", "body"), [(403, f"no quota for {KEY}".encode()), (200, b"no json"), (500, b"\xff")])
async def test_a_search_that_fails_is_reported_without_the_key(status: int, body: bytes) -> None:
    site = Site()
    site.pages["/api"] = (status, {}, body)
    async with live(site) as (caller, _):
        reply = (await caller.post("/search", {"query": "x"})).body["search_results"]
    assert reply.startswith("Error: Unexpected error - ")
    assert KEY not in reply


async def test_a_search_that_reaches_no_server_is_reported_without_the_key() -> None:
    async with live(Site(), search_url="http://127.0.0.1:1/api") as (caller, _):
        reply = (await caller.post("/search", {"query": "x"})).body["search_results"]
    assert reply.startswith("Error: Unexpected error - ")
    assert KEY not in reply


async def test_a_page_is_read_as_its_text() -> None:
    site = Site()
    site.html("/plain", "<p>One <b>two</b></p><script>three()</script><ul><li>four</ul>")
    site.html("/packed", gzip.compress(b"<p>small</p>"), content_encoding="gzip")
    site.html("/latin", "<p>Größe</p>".encode("latin-1"), content_type="text/html; charset=iso-8859-1")
    site.html("/meta", b"<meta charset=windows-1252><p>\x80</p>")
    site.html("/odd", "<p>ok</p>", content_type="text/html; charset=zlib")
    site.html("/empty", "<script>x</script>")
    site.pages["/image"] = (200, {"content-type": "image/png"}, b"\x89PNG")
    site.redirect("/moved", "/plain")
    async with live(site, **INSIDE) as (caller, there):
        assert await browse(caller, f"{there}/plain") == "One two\n- four"
        assert await browse(caller, f"{there}/moved") == "One two\n- four"
        assert await browse(caller, f"{there}/packed") == "small"
        assert await browse(caller, f"{there}/latin") == "Größe"
        assert await browse(caller, f"{there}/meta") == "€"
        assert await browse(caller, f"{there}/odd") == "ok"
        assert await browse(caller, f"{there}/empty") == "No text found"
        assert await browse(caller, f"{there}/image") == "No HTML found"
        assert await browse(caller, f"{there}/gone") == "No HTML found"


async def test_a_page_that_never_stops_unpacking_is_cut() -> None:
    site = Site()
    site.html("/bomb", gzip.compress(b"x" * 200_000_000, 9), content_encoding="gzip")
    async with live(site, **INSIDE) as (caller, there):
        assert await browse(caller, f"{there}/bomb") == "x" * ENDS + "..." + "x" * ENDS


async def test_an_unknown_content_encoding_and_a_redirect_loop_are_reported() -> None:
    site = Site()
    site.html("/br", b"?", content_encoding="br")
    site.redirect("/ring", "/ring")
    async with live(site, **INSIDE) as (caller, there):
        assert "packed as br" in await browse(caller, f"{there}/br")
        assert "redirects" in await browse(caller, f"{there}/ring")
    assert len([path for path in site.asked if path == "/ring?"]) == 6


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:{port}/secret",
        "http://localhost:{port}/secret",
        "http://LOCALHOST.:{port}/secret",
        "http://127.1:{port}/secret",
        "http://2130706433:{port}/secret",
        "http://0x7f000001:{port}/secret",
        "http://[::1]:{port}/secret",
        "http://[::ffff:127.0.0.1]:{port}/secret",
        "http://user:pw@127.0.0.1:{port}/secret",
        "http://0.0.0.0:{port}/secret",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "//127.0.0.1/x",
        "not an address",
        "",
    ],
)
async def test_an_address_of_this_machine_is_refused_however_it_is_spelt(address: str) -> None:
    site = Site()
    site.html("/secret", "<p>secret</p>")
    async with live(site) as (caller, there):
        reply = await browse(caller, address.replace("{port}", there.rpartition(":")[2]))
    assert reply.startswith("Error: Unexpected error = ")
    assert site.asked == []


async def test_a_redirect_from_an_allowed_place_to_another_is_refused() -> None:
    site = Site()
    site.html("/secret", "<p>secret</p>")
    async with live(site, **INSIDE) as (caller, there):
        port = there.rpartition(":")[2]
        for target in (f"http://127.0.0.2:{port}/secret", f"http://127.2:{port}/secret", "file:///etc/passwd"):
            site.redirect("/away", target)
            assert (await browse(caller, f"{there}/away")).startswith("Error: Unexpected error = ")
    assert set(site.asked) == {"/away?"}


async def test_what_the_live_web_said_becomes_a_recorded_web(tmp_path: Path) -> None:
    site, file = Site(), tmp_path / "web.jsonl"
    site.pages["/api"] = (200, {}, b'{"items": []}')
    site.html("/page", "<p>kept</p>")
    async with live(site, record_to=str(file), **INSIDE) as (caller, there):
        await caller.post("/search", {"query": "x"})
        await browse(caller, f"{there}/page")
    async with running(GoogleSearch.app({"recorded": str(file)}, name="g")) as url, Caller(url) as caller:
        assert await browse(caller, f"{there}/page") == "kept"
        assert (await caller.post("/search", {"query": "X"})).body == {"search_results": '{"items": []}'}


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.100.100.200", "169.254.169.254", "127.0.0.1", "0.0.0.0"),
        *("224.0.0.1", "255.255.255.255", "240.0.0.1", "168.63.129.16", "::1", "::", "fe80::1%eth0", "fd00:ec2::254"),
        *("::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "fec0::1", "ff02::1"),
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(Refused):
        Guard().check_address(address, 80)


def test_public_addresses_and_allowed_networks_may_be_visited() -> None:
    for address in ("93.184.215.14", "2606:2800:21f:cb07::1"):
        Guard().check_address(address, 443)
        with pytest.raises(Refused, match="port 22"):
            Guard().check_address(address, 22)
    Guard(["10.1.0.0/16"]).check_address("10.1.2.3", 9000)
    with pytest.raises(Refused):
        Guard(["10.1.0.0/16"]).check_address("10.2.0.1", 80)
    with pytest.raises(UserError, match="allowed_networks"):
        Guard(["10.1"])


def test_a_page_that_is_all_frame_is_read_with_it() -> None:
    assert extract("<nav><a>Only</a> links</nav>") == "Only links"
    assert extract("<head><title>t</title><body><p>text") == "text"
    assert extract("<nav>never closed <p>text</p>") == "never closed\ntext"
    assert extract("&lt;b&gt; &amp; &#8364;") == "<b> & €"


def test_a_long_page_keeps_its_two_ends() -> None:
    assert shorten("word " * 10_000) == "word " * 10_000
    long = "a" * 5000 + " word" * 10_000 + "b" * 5000
    assert shorten(long) == "a" * 5000 + "..." + "b" * 5000
