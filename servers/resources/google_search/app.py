"""Questions that need the web: a search tool, a browse tool, and an option in a box. Live, or from a recorded web."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any, Protocol

from answers import parse_option, same_option
from guard import Guard
from pydantic import BaseModel
from recorded_web import RecordedWeb

from gym.errors import UserError
from gym.server import ResourcesConfig, ResourcesServer, Score, VerifyRequest, tool
from gym.server.config import Settings
from gym.server.worker_pool import worker_pool
from gym.server.workers import Workers
from gym.wire.failures import RolloutError

log = logging.getLogger("gym.server")
DEFAULT_WEB = "data/web.jsonl"
API = "https://www.googleapis.com/customsearch/v1"


class Web(Protocol):
    async def search(self, query: str) -> dict[str, Any]: ...
    async def fetch(self, address: str) -> str | None: ...
    async def close(self) -> None: ...


class GoogleSearchConfig(ResourcesConfig):
    google_api_key: str = ""
    google_cx: str = ""
    search_url: str = API
    recorded: str = ""  # a recorded web instead of the live one; a relative path is looked for in the server's folder
    record_to: str = ""  # what the live web says is added to this file, which `recorded` may name another time
    allowed_networks: list[str] = []  # beside the public web, e.g. 10.1.0.0/16
    strict: bool = False


class SearchTask(VerifyRequest):
    expected_answer: str
    task_difficulty_qwen3_32b_avg_8: float | None = None


class SearchReply(BaseModel):
    search_results: str


class PageReply(BaseModel):
    page_content: str


class GoogleSearchScore(Score):
    parsed_option: str | None


class GoogleSearch(ResourcesServer[None]):
    reverify_mode = "stateless"
    answer = "parsed_option"
    config: GoogleSearchConfig
    readers: Workers = worker_pool("page_text")
    web: Web

    def __init__(self, config: GoogleSearchConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.live = _is_live(config)

    async def start(self) -> None:
        config = self.config
        if self.live:
            from live_web import LiveWeb  # aiohttp, which a recorded web does not pay for

            guard = Guard(config.allowed_networks)
            self.web = self.own(LiveWeb(config.google_api_key, config.google_cx, config.search_url, guard))
        else:
            self.web = self.own(RecordedWeb(self.here / (config.recorded or DEFAULT_WEB)))
            if not config.recorded:
                log.warning("no google_api_key and google_cx: the recorded web of %s answers", DEFAULT_WEB)

    def health(self) -> dict[str, Any]:
        return {**super().health(), "web": "live" if self.live else "recorded"}

    @tool
    async def search(self, query: str) -> SearchReply:
        """Search the web."""
        try:
            results = await self.web.search(query)
        except Exception as error:  # noqa: BLE001 (whatever the web does, the model reads it and goes on)
            return SearchReply(search_results=f"Error: Unexpected error - {_describe(error)}")
        await self._record({"query": query, "results": results})
        return SearchReply(search_results=json.dumps(results))

    @tool
    async def browse(self, url: str) -> PageReply:
        """Read the text of a web page."""
        try:
            html = await self.web.fetch(url)
            if not html:
                return PageReply(page_content="No HTML found")
            await self._record({"url": url, "html": html})
            return PageReply(page_content=await self.readers.call("extract", html) or "No text found")
        except Exception as error:  # noqa: BLE001 (as above)
            return PageReply(page_content=f"Error: Unexpected error = {_describe(error)}")

    async def verify(self, rollout: SearchTask) -> GoogleSearchScore:
        """1.0 when the box of the last message holds the expected option."""
        option, reason = parse_option(rollout.response.output, strict=self.config.strict)
        right = same_option(option, rollout.expected_answer, strict=self.config.strict)
        reason = "" if right else reason or f"the box holds {(option or '')[:80]!r}"
        return GoogleSearchScore(reward=float(right), parsed_option=option, reason=reason)

    async def _record(self, entry: dict[str, Any]) -> None:
        if self.live and self.config.record_to:
            await asyncio.to_thread(_append, self.here / self.config.record_to, json.dumps(entry) + "\n")


def _is_live(config: GoogleSearchConfig) -> bool:
    if config.recorded:
        return False
    if bool(config.google_api_key) != bool(config.google_cx):
        missing = "google_cx" if config.google_api_key else "google_api_key"
        raise UserError(f"google_search: {missing} is missing", "set both of them, or `recorded` for a recorded web")
    return bool(config.google_api_key)


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line)


def _describe(error: Exception) -> str:
    return error.message if isinstance(error, RolloutError) else str(error) or type(error).__name__


app = GoogleSearch.app()
