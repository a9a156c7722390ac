"""Images are fetched or built before a create enters the engine's queue, once however many ask, apart from it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable

import orjson

from gym.sandbox.broker.gates import Gate
from gym.sandbox.broker.tasks import Tasks
from gym.sandbox.broker.trouble import Busy
from gym.sandbox.provider import Progress, Provider
from gym.wire.failures import RolloutError
from gym.wire.sandbox import SandboxSpec

TRUSTED_SECONDS = 300.0  # so long an image that was there is taken to be there still


class Images:
    def __init__(
        self, provider: Provider, gate: Gate, tasks: Tasks, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._provider = provider
        self._gate = gate
        self._tasks = tasks
        self._clock = clock
        self._here: dict[str, float] = {}
        self._coming: dict[str, tuple[asyncio.Task[str], list[Progress]]] = {}

    async def need(self, spec: SandboxSpec, ends: float, progress: Progress | None = None) -> None:
        """Returns when the image is here. Who stops waiting does not stop the fetching: others may wait as well."""
        key = source_key(spec)
        if self._here.get(key, 0.0) > self._clock():
            return
        coming = self._coming.get(key)
        if coming is None:
            told: list[Progress] = []
            task = self._tasks.spawn(self._fetch(key, spec, told), f"image {spec.image or 'build'}")
            coming = self._coming[key] = (task, told)
            task.add_done_callback(lambda _: self._coming.pop(key, None))
        if progress is not None:
            coming[1].append(progress)
        try:
            async with asyncio.timeout_at(ends):
                await asyncio.shield(coming[0])
        except TimeoutError:
            what = f"the image {spec.image or 'of this build'} is still on its way"
            raise Busy(f"{what}; the request's deadline came first", 10.0) from None

    def forget(self) -> None:
        """After images were removed: look again."""
        self._here.clear()

    def status(self) -> dict[str, object]:
        return {"ready": len(self._here), "coming": len(self._coming)}

    async def _fetch(self, key: str, spec: SandboxSpec, told: list[Progress]) -> str:
        def tell(line: str) -> None:
            for one in told:
                one(line)

        async with self._gate.place(key, float("inf")):
            try:
                image = await self._provider.prepare(spec, tell)
            except Exception as error:  # noqa: BLE001 (whatever a provider raises becomes the contract's failure)
                raise image_failure(error, spec) from error
        now = self._clock()
        self._here = {one: ends for one, ends in self._here.items() if ends > now} | {key: now + TRUSTED_SECONDS}
        return image


def image_failure(error: Exception, spec: SandboxSpec) -> RolloutError:
    """No wish to come again soon: what a registry refuses now it refuses in a second as well."""
    if isinstance(error, RolloutError):
        return error
    what = f"the image {spec.image or 'of this build'} could not be had: {error or type(error).__name__}"
    return RolloutError("sandbox", what, retryable=True, status=503)


def source_key(spec: SandboxSpec) -> str:
    if spec.image is not None:
        return spec.image
    assert spec.build is not None
    return "build:" + hashlib.sha256(orjson.dumps(spec.build.model_dump(mode="json"))).hexdigest()
