"""Images that sandboxes are made from: fetched or built once, remembered, and removed when the disk runs full."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import orjson

from gym import labels
from gym.broker.provider import Progress, Tags
from gym.broker.providers.docker.engine_client import EngineClient, EngineRefused, Query
from gym.broker.providers.docker.errors import ImageMissing, explain_disk, explain_pull
from gym.broker.providers.docker.image_build import build_image, build_tag
from gym.broker.providers.docker.image_name import ImageReference, parse_reference
from gym.broker.providers.docker.registry_auth import registry_auth
from gym.errors import InfraError
from gym.files import write_atomically
from gym.wire.sandbox import Build, SandboxSpec

PULLS_AT_ONCE: Final = 3
BUILDS_AT_ONCE: Final = 2
COMMIT_SECONDS: Final = 600.0
FORKS: Final = "gym-fork"
WRITE_EVERY: Final = 30.0


class ImageFacts(NamedTuple):
    id: str
    env: frozenset[str]  # names that it sets


class ImageUse:
    """Image id -> when last used; `pulled` are those that only this provider brought here. Kept in a file."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._used: dict[str, float] = {}
        self.pulled: set[str] = set()
        self._written = 0.0
        self._read()

    def use(self, image: str, *, pulled: bool = False) -> None:
        self._used[image] = time.time()
        if pulled:
            self.pulled.add(image)
        if pulled or time.monotonic() - self._written > WRITE_EVERY:
            self.write()

    def last_used(self, image: str) -> float:
        return self._used.get(image, 0.0)

    def forget(self, image: str) -> None:
        self._used.pop(image, None)
        self.pulled.discard(image)

    def write(self) -> None:
        self._written = time.monotonic()
        if self._path is None:
            return
        with contextlib.suppress(OSError):  # a folder that cannot be written costs an order, not a sandbox
            write_atomically(self._path, orjson.dumps({"used": self._used, "pulled": sorted(self.pulled)}).decode())

    def _read(self) -> None:
        try:
            tree = orjson.loads(self._path.read_bytes()) if self._path else {}
            self._used = {str(key): float(value) for key, value in tree.get("used", {}).items()}
            self.pulled = {str(one) for one in tree.get("pulled", ())}
        except (OSError, ValueError, TypeError, AttributeError):
            self._used, self.pulled = {}, set()  # a torn file costs an order, not an image


class ImageStore:
    def __init__(self, engine: EngineClient, image_use: ImageUse) -> None:
        self._engine = engine
        self._image_use = image_use
        self._known: dict[str, ImageFacts] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._pulls = asyncio.Semaphore(PULLS_AT_ONCE)
        self._builds = asyncio.Semaphore(BUILDS_AT_ONCE)

    async def prepare(self, spec: SandboxSpec, progress: Progress | None = None) -> ImageFacts:
        """Here when this returns."""
        if spec.build is not None:
            return await self.make(spec.build, progress)
        assert spec.image is not None
        reference = _parsed(spec.image)
        name = reference.whole
        if (facts := self._remembered(name)) is not None:
            return facts
        async with self._locks.setdefault(name, asyncio.Lock()):
            facts = self._remembered(name) or await self._inspect(name)
            if facts is None:
                await self._pull(reference, progress or _quiet)
                facts = await self._inspect(name)
                if facts is None:
                    raise ImageMissing(f"{name} was pulled, and the engine does not find it all the same.")
                self._image_use.use(facts.id, pulled=True)
            return facts

    async def make(self, build: Build, progress: Progress | None = None) -> ImageFacts:
        tag = build_tag(build)
        if (facts := self._remembered(tag)) is not None:
            return facts
        async with self._locks.setdefault(tag, asyncio.Lock()):
            facts = self._remembered(tag) or await self._inspect(tag)
            if facts is None:
                async with self._builds:
                    await build_image(self._engine, build, progress or _quiet)
                facts = await self._inspect(tag)
            if facts is None:
                raise InfraError(f"{tag} was built, and the engine does not find it.", "docker images shows what is.")
            return facts

    def forget(self, image: str) -> None:
        """The image was removed behind our back."""
        for name in [name for name, facts in self._known.items() if facts.id == image]:
            del self._known[name]

    async def commit(self, container: str, tags: Tags, *, pause: bool) -> str:
        """The container's files as an image, as they are at one moment with `pause`: its processes stand still."""
        query: Query = {"container": container, "repo": fork_repository(tags.stack), "tag": tags.id, "pause": pause}
        marks = {labels.STACK: tags.stack, labels.SANDBOX_IMAGE: "fork", labels.SANDBOX: ""}
        doing = "copy a sandbox's files"
        try:
            made = await self._engine.call(
                "POST", "/commit", query, json={"Labels": marks}, doing=doing, timeout=COMMIT_SECONDS
            )
        except EngineRefused as error:
            raise explain_disk(error.words) or error from error
        self._image_use.use(made["Id"])
        return str(made["Id"])

    async def remove(self, image: str) -> bool:
        """Of a fork. What others were made from loses its name only, and goes with the last of them."""
        try:
            await self._engine.call("DELETE", f"/images/{quote(image)}", {"force": False}, doing="remove an image")
        except EngineRefused as error:
            if error.status not in (404, 409):
                raise
            return error.status == 404
        self._image_use.forget(image)
        return True

    def _remembered(self, name: str) -> ImageFacts | None:
        facts = self._known.get(name)
        if facts is not None:
            self._image_use.use(facts.id)
        return facts

    async def _inspect(self, name: str) -> ImageFacts | None:
        try:
            info: dict[str, Any] = await self._engine.call("GET", f"/images/{quote(name)}/json", doing="find an image")
        except EngineRefused as error:
            if error.status == 404:
                return None
            raise
        env = (info.get("Config") or {}).get("Env") or ()
        facts = ImageFacts(str(info["Id"]), frozenset(entry.partition("=")[0] for entry in env))
        self._known[name] = facts
        self._image_use.use(facts.id)
        return facts

    async def _pull(self, reference: ImageReference, progress: Progress) -> None:
        version = reference.digest or reference.tag or "latest"
        query = {"fromImage": reference.repository, "tag": version}
        auth = await asyncio.to_thread(registry_auth, reference)
        headers = {"X-Registry-Auth": auth} if auth else {}
        progress(f"fetching {reference.whole}")
        try:
            async with self._pulls:
                lines = self._engine.lines("POST", "/images/create", query, headers=headers, doing="pull an image")
                async with aclosing(lines):
                    async for line in lines:
                        if "error" in line:
                            raise explain_pull(reference.whole, str(line["error"]))
                        if text := _progress_of(line):
                            progress(text)
        except EngineRefused as error:
            raise explain_pull(reference.whole, error.words) from error


def fork_name(tags: Tags) -> str:
    """Of the image that holds what a fork began with."""
    return f"{fork_repository(tags.stack)}:{tags.id}"


def fork_repository(stack: str) -> str:
    return f"{FORKS}/{re.sub(r'[^a-z0-9]+', '-', stack.lower()).strip('-') or 'stack'}"


def _parsed(image: str) -> ImageReference:
    try:
        return parse_reference(image)
    except ValueError as error:
        raise ImageMissing(str(error)) from None


def _progress_of(line: dict[str, Any]) -> str:
    detail = line.get("progressDetail") or {}
    done, total = detail.get("current"), detail.get("total")
    share = f" {100 * done // total} %" if isinstance(done, int) and isinstance(total, int) and total > 0 else ""
    return f"{line.get('id', '')} {line.get('status', '')}{share}".strip()


def _quiet(_: str) -> None:
    return None
