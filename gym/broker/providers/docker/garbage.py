"""Removes unused images that we pulled or built when the engine's disk is full, the longest unused first."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from gym import labels
from gym.broker.providers.docker.engine_client import EngineClient, EngineRefused
from gym.broker.providers.docker.engine_events import used_share
from gym.broker.providers.docker.image_build import REPOSITORY
from gym.broker.providers.docker.image_store import FORKS, ImageStore, ImageUse

NAMES: Final = {  # how those of each kind begin
    "built": (f"{REPOSITORY}:", f"{REPOSITORY}@"),
    "fork": (f"{FORKS}/",),
}


async def collect(
    engine: EngineClient, image_use: ImageUse, images: ImageStore, root: Path | None, low: float, high: float
) -> int:
    """Nothing below `high` (a share of the disk); above, until it is below `low`. Bytes that were freed."""
    if root is None or used_share(root)[0] <= high:
        return 0
    freed = 0
    for image in await removable(engine, image_use):
        share, whole = used_share(root)
        if share <= low:
            break
        freed += await _remove(engine, image_use, images, image)
    image_use.write()
    return freed


async def removable(engine: EngineClient, image_use: ImageUse) -> list[dict[str, Any]]:
    """Ours, used by no container, in the order in which they go."""
    listed = await engine.call("GET", "/images/json", doing="list images")
    containers = await engine.call("GET", "/containers/json", {"all": True}, doing="list containers")
    used = {one["ImageID"] for one in containers}
    ours = [one for one in listed if one["Id"] not in used and (is_ours(one) or one["Id"] in image_use.pulled)]
    return sorted(ours, key=lambda one: image_use.last_used(one["Id"]) or float(one.get("Created") or 0))


def is_ours(image: dict[str, Any]) -> bool:
    """By its label, and by every name that it has: an image that is made from one of ours inherits its label."""
    beginnings = NAMES.get((image.get("Labels") or {}).get(labels.SANDBOX_IMAGE, ""))
    names = [name for key in ("RepoTags", "RepoDigests") for name in image.get(key) or () if name[0] != "<"]
    return beginnings is not None and all(name.startswith(beginnings) for name in names)


async def _remove(engine: EngineClient, image_use: ImageUse, images: ImageStore, image: dict[str, Any]) -> int:
    try:
        for name in names_of(image):
            await engine.call("DELETE", f"/images/{name}", doing="remove an image")
    except EngineRefused:
        return 0  # a sandbox took it meanwhile, or another image is made from it
    image_use.forget(image["Id"])
    images.forget(image["Id"])
    return int(image.get("Size") or 0)


def names_of(image: dict[str, Any]) -> list[str]:
    """Its tags; its id where it has none (older engines then call it `<none>:<none>`)."""
    return [name for name in image.get("RepoTags") or () if not name.startswith("<none>")] or [image["Id"]]
