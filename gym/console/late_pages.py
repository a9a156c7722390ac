"""The pages for people, made when the first of them is asked for.

Many stacks are never looked at, and to import what the pages need is a sixth of the console's imports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router, request_response
from starlette.types import Receive, Scope, Send

from gym.console.pages.shell import PAGE_HEADERS, PageAccess, Section, end_all, fill_shell, make_pages

MakeSections = Callable[[], Sequence[Section]]


class _Made(NamedTuple):
    sections: Sequence[Section]
    front: str
    router: Router


class LatePages:
    """`nowhere` answers for what is not a page."""

    def __init__(self, make_sections: MakeSections, nowhere: Callable[[Request], Awaitable[Response]]) -> None:
        self._make_sections = make_sections
        self._nowhere = nowhere
        self._made: _Made | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._pages()).router(scope, receive, send)

    async def front(self) -> Response:
        return Response((await self._pages()).front, headers=PAGE_HEADERS, media_type="text/html")

    async def aclose(self) -> None:
        if self._made is not None:
            await end_all(self._made.sections)

    async def _pages(self) -> _Made:
        async with self._lock:
            if self._made is None:
                self._made = await run_in_threadpool(self._make)
            return self._made

    def _make(self) -> _Made:
        sections, access = self._make_sections(), PageAccess(stack="")
        router = Router(make_pages(sections, access), redirect_slashes=False, default=request_response(self._nowhere))
        return _Made(sections, fill_shell(sections[0], sections, access), router)
