"""Volumes of ours on the engine that nothing uses: those with the helper of sandboxes, which all stacks share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gym import labels
from gym.runtime.cache_leftovers import Leftover
from gym.runtime.compose.containers import timestamp

if TYPE_CHECKING:
    import docker

VOLUME: Final = "volume"
HELPER: Final = f"{labels.SANDBOX}=helper"


def find_volume_leftovers(client: docker.DockerClient) -> list[Leftover]:
    """A broker that runs fills a new one for its next sandbox."""
    names = {one["Name"] for one in client.api.volumes(filters={"label": [HELPER], "dangling": True})["Volumes"] or ()}
    measured: list[dict[str, Any]] = client.df()["Volumes"] or [] if names else []
    return [_leftover(one) for one in measured if one["Name"] in names]


def remove_volume(client: docker.DockerClient, one: Leftover) -> bool:
    """False where a sandbox has come to use it."""
    import docker.errors  # noqa: PLC0415

    try:
        client.api.remove_volume(one.name)
    except docker.errors.NotFound:
        return True
    except docker.errors.APIError:
        return False
    return True


def _leftover(volume: dict[str, Any]) -> Leftover:
    size = max((volume.get("UsageData") or {}).get("Size", 0), 0)
    return Leftover(kind=VOLUME, name=volume["Name"], bytes=size, used=timestamp(volume.get("CreatedAt") or ""))
