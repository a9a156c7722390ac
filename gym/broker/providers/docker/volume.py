"""The volume with the helper, mounted read-only into every sandbox. Named by its content, filled once for an engine."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import secrets
import tarfile
from pathlib import Path
from typing import Final

from gym import labels
from gym.broker.providers.docker.create_body import HELPER, HELPER_AT, NOT_FROM_THE_IMAGE
from gym.broker.providers.docker.engine_client import EngineClient, EngineRefused

ROLE: Final = "helper"
MEASURE_SECONDS: Final = 300.0
VOLUMES: Final = "gym-helper-"  # names of the volumes, and of the containers through which they are filled
NAME_OF: Final = HELPER.rpartition("/")[2]
# Executable, not readable: then the kernel lets no process of the same user trace it, from its start.
MODE: Final = 0o111


class HelperVolume:
    """`ensure` before the first sandbox; `forget` when a sandbox found nothing in it."""

    def __init__(self, engine: EngineClient, binary: Path) -> None:
        self._engine = engine
        self._data = binary.read_bytes()
        self.name = f"{VOLUMES}{hashlib.sha256(self._data).hexdigest()[:16]}"
        self._filled = False
        self._lock = asyncio.Lock()

    async def ensure(self, image: str) -> str:
        """Fills it through a container of `image` that never starts: the engine has no other way to write a volume."""
        if not self._filled:
            async with self._lock:
                if not self._filled:
                    await self._fill(image)
                    self._filled = True
        return self.name

    def forget(self) -> None:
        self._filled = False

    async def sweep(self) -> None:
        """Volumes of other helpers than this one, that no sandbox holds any more."""
        wanted = f'{{"label":["{labels.SANDBOX}={ROLE}"],"dangling":["true"]}}'
        listed = await self._engine.call("GET", "/volumes", {"filters": wanted}, doing="list the helpers' volumes")
        for name in [one["Name"] for one in listed.get("Volumes") or () if one["Name"] != self.name]:
            with contextlib.suppress(EngineRefused):  # taken meanwhile
                await self._engine.call("DELETE", f"/volumes/{name}", doing="remove a helper's volume")

    async def _fill(self, image: str) -> None:
        named = {"Name": self.name, "Labels": {labels.SANDBOX: ROLE}}
        await self._engine.call("POST", "/volumes/create", json=named, doing="make the helper's volume")
        mount = {"Type": "volume", "Source": self.name, "Target": HELPER_AT, "VolumeOptions": {"NoCopy": True}}
        body = {
            "Image": image,
            "Entrypoint": [HELPER],
            "Labels": {**NOT_FROM_THE_IMAGE, labels.SANDBOX: ROLE},
            "NetworkDisabled": True,
            "HostConfig": {"NetworkMode": "none", "Mounts": [mount]},
        }
        through = {"name": f"{self.name}-{secrets.token_hex(4)}"}
        doing = "make the helper's container"
        made = await self._engine.call("POST", "/containers/create", through, json=body, doing=doing)
        try:
            if not await self._holds(made["Id"]):
                archive, packed = f"/containers/{made['Id']}/archive", _packed(self._data)
                await self._engine.call("PUT", archive, {"path": HELPER_AT}, body=packed, doing="copy the helper")
        finally:
            gone = f"/containers/{made['Id']}"
            await self._engine.call("DELETE", gone, {"force": True}, doing="remove the helper's container")

    async def _holds(self, container: str) -> bool:
        """True when the whole binary is there: a broker may have died half-way."""
        try:
            found = await self._engine.call(
                "GET", f"/containers/{container}/archive", {"path": HELPER}, doing="look for the helper"
            )
            with tarfile.open(fileobj=io.BytesIO(found)) as tar:
                member = tar.extractfile(tar.getmembers()[0])
                return member is not None and member.read() == self._data
        except (EngineRefused, tarfile.TarError, IndexError):
            return False


async def measure_volumes(engine: EngineClient) -> dict[str, int]:
    """Bytes of every volume of the engine, by name."""
    listed = await engine.call(
        "GET", "/system/df", {"type": "volume"}, doing="measure volumes", timeout=MEASURE_SECONDS
    )
    return {one["Name"]: max((one.get("UsageData") or {}).get("Size", 0), 0) for one in listed.get("Volumes") or ()}


def _packed(data: bytes) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        entry = tarfile.TarInfo(NAME_OF)
        entry.size, entry.mode = len(data), MODE
        tar.addfile(entry, io.BytesIO(data))
    return whole.getvalue()
