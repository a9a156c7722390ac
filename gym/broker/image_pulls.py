"""Pulls or builds images before a create enters the engine's queue; once for all requests that need the image."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable

import orjson

from gym.broker.admission import Admission
from gym.broker.background import BackgroundTasks
from gym.broker.errors import Busy
from gym.broker.provider import Provider
from gym.wire.failures import RolloutError
from gym.wire.sandbox import SandboxSpec

TRUSTED_SECONDS = 300.0  # how long a found image is not looked up again


class PendingImage:
    """An image on its way: for whom, since when, and the last line of its progress."""

    def __init__(self, spec: SandboxSpec, began: float) -> None:
        self.spec = spec
        self.began = began
        self.ended = 0.0
        self.instances: set[str] = set()
        self.line = ""
        self.task: asyncio.Task[str] | None = None

    def tell(self, line: str) -> None:
        self.line = line


class ImagePulls:
    def __init__(
        self,
        provider: Provider,
        admission: Admission,
        tasks: BackgroundTasks,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._provider = provider
        self._admission = admission
        self._tasks = tasks
        self._clock = clock
        self._here: dict[str, float] = {}
        self._coming: dict[str, PendingImage] = {}

    async def need(self, spec: SandboxSpec, deadline: float, *, instance: str = "") -> None:
        """Returns when the image is there. A cancelled caller does not cancel the pull: others may wait for it."""
        coming = self.begin(spec, instance)
        if coming is None or coming.task is None:
            return
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.shield(coming.task)
        except TimeoutError:
            what = f"the image {spec.image or 'of this build'} is still on its way"
            raise Busy(f"{what}; the request's deadline came first", 10.0) from None

    def begin(self, spec: SandboxSpec, instance: str = "") -> PendingImage | None:
        """None where the image is there already."""
        key = source_key(spec)
        if self._is_here(key):
            return None
        coming = self._coming.get(key)
        if coming is None:
            coming = self._coming[key] = PendingImage(spec, self._clock())
            coming.task = self._tasks.spawn(self._fetch(key, coming), f"image {spec.image or 'build'}")
            coming.task.add_done_callback(lambda _: self._coming.pop(key, None))
        coming.instances |= {instance} - {""}
        return coming

    def is_here(self, spec: SandboxSpec) -> bool:
        """Found or fetched a short while ago."""
        return self._is_here(source_key(spec))

    def builds(self) -> dict[str, PendingImage]:
        """Pending images that are built, not pulled."""
        return {key: one for key, one in self._coming.items() if one.spec.build is not None}

    def forget(self) -> None:
        """After images were removed: look them up again."""
        self._here.clear()

    def status(self) -> dict[str, object]:
        return {"ready": len(self._here), "coming": len(self._coming)}

    def _is_here(self, key: str) -> bool:
        return self._here.get(key, 0.0) > self._clock()

    async def _fetch(self, key: str, coming: PendingImage) -> str:
        try:
            async with self._admission.slot_for(key, float("inf")):
                image = await self._provider.prepare(coming.spec, coming.tell)
        except Exception as error:  # noqa: BLE001 (any error of a provider becomes the contract's failure)
            raise image_failure(error, coming.spec) from error
        finally:
            coming.ended = self._clock()
        now = self._clock()
        self._here = {one: deadline for one, deadline in self._here.items() if deadline > now} | {
            key: now + TRUSTED_SECONDS
        }
        return image


def image_failure(error: Exception, spec: SandboxSpec) -> RolloutError:
    """Without `retry_after`: what a registry refuses now it refuses in a second as well."""
    if isinstance(error, RolloutError):
        return error
    why = str(error) or type(error).__name__
    what = f"the image {spec.image or 'of this build'} could not be pulled or built: {why}"
    return RolloutError("sandbox", what, retryable=True, status=503)


def source_key(spec: SandboxSpec) -> str:
    if spec.image is not None:
        return spec.image
    assert spec.build is not None
    return "build:" + hashlib.sha256(orjson.dumps(spec.build.model_dump(mode="json"))).hexdigest()
