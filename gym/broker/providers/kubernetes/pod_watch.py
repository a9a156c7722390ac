"""What is known of a stack's pods, by one list and one watch for all of them. A gap is closed by another list."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from gym.broker.providers.kubernetes.api_client import ApiClient, ApiRefused, ApiSilent

T = TypeVar("T")
Pod = dict[str, Any]
WATCH_SECONDS: Final = 300
LIST_LIMIT: Final = 500
REMEMBERED: Final = 4096
FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0
log = logging.getLogger("gym.broker")


class WatchExpired(Exception):  # noqa: N818 (no failure: a new list follows)
    """The API no longer has the events since the last one that was seen (410 Gone)."""


class PodWatch:
    """`run` for as long as anyone waits."""

    def __init__(self, api: ApiClient, selector: str) -> None:
        self._api = api
        self._selector = selector
        self._pods: dict[str, Pod] = {}
        self._gone: deque[str] = deque(maxlen=REMEMBERED)  # uids: a reply may be older than the event
        self._learned: set[str] = set()  # names, since the last list began
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._version = ""

    async def run(self) -> None:
        """For ever."""
        pause = FIRST_PAUSE
        while True:
            try:
                if not self._version:
                    await self.refresh()
                await self._follow()
                pause = FIRST_PAUSE
            except WatchExpired:
                self._version = ""
            except (ApiSilent, ApiRefused) as error:
                log.warning("the watch over the sandboxes' pods broke off: %s", error.what)
                self._version = ""
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def refresh(self) -> None:
        """Everything there is, page by page."""
        found: dict[str, Pod] = {}
        self._learned.clear()
        query: dict[str, str | int] = {"labelSelector": self._selector, "limit": LIST_LIMIT}
        while True:
            page = await self._api.call("GET", "/pods", query, doing="list sandboxes")
            found |= {one["metadata"]["name"]: one for one in page.get("items") or ()}
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                break
            query["continue"] = more
        former = self._pods
        newer = {name: former[name] for name in self._learned if name in former and name not in found}
        self._pods = {**found, **newer}
        self._version = str((page.get("metadata") or {}).get("resourceVersion") or "0")
        self._gone += [pod["metadata"]["uid"] for name, pod in former.items() if name not in self._pods]
        for name in {*former, *found, *self._waiting}:
            self._tell(name)

    def learn(self, pod: Pod) -> None:
        """The reply to a creation, which may come before its event, or after its end."""
        metadata = pod["metadata"]
        if metadata["uid"] not in self._gone:
            self._pods.setdefault(metadata["name"], pod)
            self._learned.add(metadata["name"])

    def find(self, name: str) -> Pod | None:
        return self._pods.get(name)

    def all(self) -> tuple[Pod, ...]:
        return tuple(self._pods.values())

    async def until(self, name: str, test: Callable[[Pod | None], T | None], seconds: float) -> T:
        """What `test` first finds in the pod, or in None once it is gone; TimeoutError."""
        event = asyncio.Event()
        self._waiting.setdefault(name, set()).add(event)
        try:
            async with asyncio.timeout(seconds):
                while (found := test(self._pods.get(name))) is None:
                    event.clear()
                    await event.wait()
                return found
        finally:
            self._waiting[name].discard(event)
            if not self._waiting[name]:
                del self._waiting[name]

    async def _follow(self) -> None:
        query: dict[str, str | int] = {
            "labelSelector": self._selector,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": WATCH_SECONDS,
        }
        events = self._api.watch("/pods", query, doing="watch sandboxes")
        async with contextlib.aclosing(events):
            try:
                async for event in events:
                    self._take(event)
            except ApiRefused as error:
                if error.status == 410:
                    raise WatchExpired from error
                raise

    def _take(self, event: dict[str, Any]) -> None:
        kind, pod = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            if pod.get("code") == 410 or pod.get("reason") == "Expired":
                raise WatchExpired
            raise ApiSilent(f"The Kubernetes API ended its watch: {pod.get('message')}")
        metadata = pod.get("metadata") or {}
        self._version = str(metadata.get("resourceVersion") or self._version)
        if kind == "BOOKMARK":
            return
        if kind == "DELETED":
            self._gone.append(metadata["uid"])
            self._pods.pop(metadata["name"], None)
        else:
            self._pods[metadata["name"]] = pod
        self._tell(metadata["name"])

    def _tell(self, name: str) -> None:
        for event in self._waiting.get(name, ()):
            event.set()
