"""Images that sandboxes are made from: fetched or built once, remembered, and removed when the disk runs full."""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import orjson

from gym import labels
from gym.broker.provider import Progress
from gym.broker.providers.docker.engine_client import Engine, EngineRefused, Query
from gym.broker.providers.docker.errors import ImageMissing, explain_disk, explain_pull
from gym.broker.providers.docker.image_build import build_image, build_tag
from gym.broker.providers.docker.image_name import Reference, parse_reference
from gym.broker.providers.docker.image_use import Ledger
from gym.broker.providers.docker.registry_auth import registry_auth
from gym.errors import InfraError
from gym.wire.sandbox import SNAPSHOT, Build, SandboxSpec

PULLS_AT_ONCE: Final = 3
BUILDS_AT_ONCE: Final = 2
COMMIT_SECONDS: Final = 600.0
SNAPSHOTS: Final = "gym-snapshot"
FORKS: Final = "gym-fork"


class ImageFacts(NamedTuple):
    id: str
    env: frozenset[str]  # names that it sets


class Images:
    def __init__(self, engine: Engine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger
        self._known: dict[str, ImageFacts] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._pulls = asyncio.Semaphore(PULLS_AT_ONCE)
        self._builds = asyncio.Semaphore(BUILDS_AT_ONCE)

    async def prepare(self, spec: SandboxSpec, stack: str, progress: Progress | None = None) -> ImageFacts:
        """Here when this returns."""
        if spec.build is not None:
            return await self.make(spec.build, progress)
        assert spec.image is not None
        if spec.image.startswith(SNAPSHOT):
            return await self.find_snapshot(stack, spec.image.removeprefix(SNAPSHOT))
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
                self._ledger.use(facts.id, pulled=True)
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

    async def find_snapshot(self, stack: str, name: str) -> ImageFacts:
        facts = await self._inspect(f"{SNAPSHOTS}/{repository_of(stack)}:{name}")
        if facts is None:
            raise ImageMissing(f"This stack has no snapshot {name!r}; `gym sandbox ls` shows what there is.")
        return facts

    async def snapshots(self, stack: str) -> tuple[str, ...]:
        repository = f"{SNAPSHOTS}/{repository_of(stack)}"
        wanted = {"reference": [repository], "label": [f"{labels.STACK}={stack}"]}
        query: Query = {"filters": orjson.dumps(wanted).decode()}
        told = await self._engine.call("GET", "/images/json", query, doing="list snapshots")
        names = [name for image in told for name in image.get("RepoTags") or ()]
        return tuple(sorted(name.rpartition(":")[2] for name in names if name.startswith(f"{repository}:")))

    async def remove_snapshot(self, stack: str, name: str) -> bool:
        if name not in await self.snapshots(stack):
            return False
        image = f"{SNAPSHOTS}/{repository_of(stack)}:{name}"
        self._known.pop(image, None)
        return await self.remove(image)

    def forget(self, image: str | None = None) -> None:
        """It was not there after all: somebody removed it."""
        if image is None:
            self._known.clear()
        for name in [name for name, facts in self._known.items() if facts.id == image]:
            del self._known[name]

    async def commit(self, container: str, repository: str, tag: str, stack: str, kind: str, *, pause: bool) -> str:
        """The container's files as an image, as they are at one moment with `pause`: its processes stand still."""
        query: Query = {"container": container, "repo": repository, "tag": tag, "pause": pause}
        marks = {labels.STACK: stack, labels.SANDBOX_IMAGE: kind, labels.SANDBOX: ""}
        doing = "copy a sandbox's files"
        try:
            made = await self._engine.call(
                "POST", "/commit", query, json={"Labels": marks}, doing=doing, timeout=COMMIT_SECONDS
            )
        except EngineRefused as error:
            raise explain_disk(error.words) or error from error
        self._ledger.use(made["Id"])
        return str(made["Id"])

    async def remove(self, image: str) -> bool:
        """Of a fork or snapshot. What others were made from loses its name only, and goes with the last of them."""
        try:
            await self._engine.call("DELETE", f"/images/{quote(image)}", {"force": False}, doing="remove an image")
        except EngineRefused as error:
            if error.status not in (404, 409):
                raise
            return error.status == 404
        self._ledger.forget(image)
        return True

    def _remembered(self, name: str) -> ImageFacts | None:
        facts = self._known.get(name)
        if facts is not None:
            self._ledger.use(facts.id)
        return facts

    async def _inspect(self, name: str) -> ImageFacts | None:
        try:
            told: dict[str, Any] = await self._engine.call("GET", f"/images/{quote(name)}/json", doing="find an image")
        except EngineRefused as error:
            if error.status == 404:
                return None
            raise
        env = (told.get("Config") or {}).get("Env") or ()
        facts = ImageFacts(str(told["Id"]), frozenset(entry.partition("=")[0] for entry in env))
        self._known[name] = facts
        self._ledger.use(facts.id)
        return facts

    async def _pull(self, reference: Reference, progress: Progress) -> None:
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


def repository_of(stack: str) -> str:
    """A stack's name as a part of an image's name."""
    return re.sub(r"[^a-z0-9]+", "-", stack.lower()).strip("-") or "stack"


def _parsed(image: str) -> Reference:
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
