"""Sandboxes with the Python that a policy's code runs on: as a user without rights, read-only but for memory.

Unless another image is named they have numpy, pandas, scipy and sympy; where no image can be built, it is known.
"""

from __future__ import annotations

import ast
import asyncio
import logging
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.build_folder import read_build
from gym.sandbox.sandbox_handle import Sandbox
from gym.sandbox.science import IMAGE, PACKAGES, SCIENCE
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build

log = logging.getLogger("gym.sandbox")
PROGRAM_FOLDER: Final = "/programs"
NOBODY: Final = "65534:65534"


@dataclass(frozen=True, slots=True)
class ImageSource:
    """What sandboxes are made from; `instead` where that cannot be had."""

    image: str | None = None
    build: Build | None = None
    instead: str | None = None

    @property
    def asked(self) -> dict[str, Any]:
        return {"build": self.build} if self.build is not None else {"image": self.image}


def source_of(image: str, build: str, folder: Path) -> ImageSource:
    """As a server's config says; `build` names a folder of the server's, or is `science`. Nothing said: `science`, or
    plain Python on a provider that builds nothing."""
    if build == "science":
        return ImageSource(build=SCIENCE)
    if build:
        return ImageSource(build=read_build(folder / build))
    return ImageSource(image=image) if image else ImageSource(build=SCIENCE, instead=IMAGE)


class PythonSandboxes:
    """Makes sandboxes: tries one source after the other until one works, and keeps to that one."""

    def __init__(self, sandboxes: Sandboxes, source: ImageSource, *, ttl: float | None = None, **spec: Any) -> None:
        self._sandboxes = sandboxes
        self._ttl = ttl
        self._spec = spec if ttl is None else {**spec, "ttl": ttl}
        self._source = source
        self._first: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Has the image built now, in the background, and not when the first answer waits for it. The broker knows of
        it when this returns, so that `gym up` can show it."""
        if self._source.build is None:
            return
        try:
            await self._sandboxes.begin_build(self._source.build)
        except RolloutError as error:
            log.warning("the broker has not begun to build what programs run in: %s", error.message[:2000])
        self._first = asyncio.get_running_loop().create_task(self._build())

    async def aclose(self) -> None:
        if self._first is not None:
            self._first.cancel()
            await asyncio.gather(self._first, return_exceptions=True)

    async def _build(self) -> None:
        began = time.monotonic()
        log.info("building the image that programs run in, where it is not there yet")
        try:
            await (await self.create()).delete()
            log.info("what programs run in is there, after %.0f s", time.monotonic() - began)
        except RolloutError as error:
            log.warning("what programs run in could not be made yet: %s", error.message[:2000])

    async def create(self) -> Sandbox:
        source = self._source
        try:
            return await self._create_isolated(source)
        except RolloutError as error:
            if source.instead is None or error.retryable:
                raise
            log.warning("programs get plain Python, without %s: %s", ", ".join(PACKAGES), error.message[:2000])
            self._source = ImageSource(image=source.instead)
            return await self._create_isolated(self._source)

    async def extend_in_use(self, sandbox: Sandbox) -> None:
        """Before each use by a session, which lasts while it is used: so does its sandbox."""
        if self._ttl is not None:
            await sandbox.extend_if_due(self._ttl)

    async def _create_isolated(self, source: ImageSource) -> Sandbox:
        """Without isolation where the provider runs plain processes."""
        spec = {**source.asked, **self._spec}
        isolated = {"read_only": True, "mounts": {PROGRAM_FOLDER: 64 << 20}, "user": NOBODY}
        try:
            return await self._sandboxes.create(spec | isolated)
        except RolloutError as error:
            if error.status != 422 or "plain processes" not in error.message:
                raise
            return await self._sandboxes.create(spec)


def missing_packages(code: str, missing: Collection[str]) -> tuple[str, ...]:
    """Packages that the code imports unconditionally and that the sandbox does not have."""
    if not missing:
        return ()
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(sorted(set(imported(body)) & set(missing)))


def imported(body: Collection[ast.stmt]) -> Iterator[str]:
    """By statements that run whenever it runs: none below a `try`, an `if` or a `def`."""
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            yield (statement.module or "").partition(".")[0]


def refuse_missing(names: Collection[str]) -> None:
    if names:
        what = (
            f"the code imports {', '.join(names)}, which is not in its sandbox's Python. Use the provider `docker` with"
            " `build: true` in the instance's `sandbox:`, name an image that has it as `sandbox_image`, or, on"
            " `bubblewrap` and `subprocess`, see in the broker's log why uv could not install it: gym logs sandbox"
        )
        raise RolloutError("sandbox", what, server="sandbox", retryable=False)
