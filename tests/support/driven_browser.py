"""A real browser that a test drives: opens pages, runs scripts in them, looks, and hears what they complain about."""

from __future__ import annotations

import asyncio
import base64
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import orjson

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-port=0"),
    *("--disable-background-networking", "--disable-dev-shm-usage", "--hide-scrollbars", "about:blank"),
)
SECONDS = 120.0


class BrowserRefusedError(AssertionError):
    """The browser did not do what it was asked: mostly because the page gave way to another one in the meantime."""


class DrivenPage:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []  # errors of scripts, and what the policy refused
        self.dialogs: list[str] = []  # alert() and its like
        self.requests: list[str] = []
        self._socket = socket
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def send(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        await self._socket.send_str(orjson.dumps({"id": number, "method": method, "params": params}).decode())
        async with asyncio.timeout(SECONDS):
            return await future

    async def open(self, url: str) -> None:
        await self.send("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def run(self, script: str) -> Any:
        """The value of an expression; one that is a promise is awaited. The page's policy does not bind it."""
        reply = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in reply:
            raise AssertionError(f"{script}: {reply['exceptionDetails']}")
        return reply["result"].get("value")

    async def until(self, script: str) -> None:
        async with asyncio.timeout(SECONDS):
            while True:
                with suppress(AssertionError):  # the page is on its way to another one
                    if await self.run(script):
                        return
                await asyncio.sleep(0.02)

    async def text(self) -> str:
        await self.until("document.readyState === 'complete'")
        return " ".join(str(await self.run("document.body.innerText")).split())

    async def look(self, *, width: int = 1600, height: int = 1000, dark: bool = False) -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.send("Emulation.setEmulatedMedia", features=scheme)
        facts = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.send("Emulation.setDeviceMetricsOverride", **facts)

    async def screenshot(self, path: Path, *, whole: bool = False) -> None:
        shot = await self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    async def listen(self) -> None:
        async for frame in self._socket:
            message = orjson.loads(frame.data)
            if "id" in message:
                future = self._waiting.pop(message["id"])
                if future.done():
                    continue
                if "error" in message:
                    future.set_exception(BrowserRefusedError(message["error"].get("message")))
                else:
                    future.set_result(message["result"])
            else:
                self._hear(message["method"], message["params"])

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            self._answer = asyncio.get_running_loop().create_task(self.send("Page.handleJavaScriptDialog", accept=True))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


@asynccontextmanager
async def driven(profile: Path) -> AsyncIterator[DrivenPage]:
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *OPTIONS,
        f"--user-data-dir={profile}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port = await _port(profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as reply:
                tab = next(one for one in await reply.json() if one["type"] == "page")
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = DrivenPage(socket)
                listening = asyncio.get_running_loop().create_task(page.listen())
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await page.send(f"{domain}.enable")
                try:
                    yield page
                finally:
                    listening.cancel()
                    await asyncio.wait([listening])
    finally:
        process.terminate()
        await process.wait()


async def _port(file: Path) -> str:
    async with asyncio.timeout(SECONDS):
        while True:
            with suppress(OSError, IndexError):
                if found := (await asyncio.to_thread(file.read_text)).split()[0]:
                    return found
            await asyncio.sleep(0.05)
