"""Images of ours on the engine that nothing uses: no container, and no folder in which a stack was started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import orjson

from gym import labels
from gym.runtime.cache_leftovers import Leftover
from gym.runtime.compose.archive_images import LOADED
from gym.runtime.compose.images import LABEL_ROLE, LABEL_SOURCE
from gym.runtime.user_state import known_homes, owner

if TYPE_CHECKING:
    import docker

ROLES: Final = frozenset({"base", "server", "service"})  # a packed environment is its maker's to keep


def find_image_leftovers(client: docker.DockerClient, *, everything: bool) -> list[Leftover]:
    """Those that a newer one of the same server has replaced; with `everything`, all that nothing uses."""
    listed: list[dict[str, Any]] = client.api.images(filters={"label": [LABEL_ROLE, f"{labels.OWNER}={owner()}"]})
    containers = client.api.containers(all=True)
    used = {one["ImageID"] for one in containers} | {one["Image"] for one in containers} | set(named_by_stacks())
    found = listed if everything else older_images([one for one in listed if not _is_loaded(one)])
    return [_leftover(one) for one in found if _may_go(one, used)]


def remove_image(client: docker.DockerClient, one: Leftover) -> bool:
    """False where the engine refuses, since a container has come to use it."""
    import docker.errors  # noqa: PLC0415

    try:
        for name in one.images:
            client.api.remove_image(name)
    except docker.errors.NotFound:
        return True
    except docker.errors.APIError:
        return False
    return True


def older_images(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All but the latest of each server, and of the base."""
    latest: dict[str, int] = {}
    for one in listed:
        latest[_family(one)] = max(latest.get(_family(one), 0), one["Created"])
    return [one for one in listed if one["Created"] < latest[_family(one)]]


def named_by_stacks() -> Iterator[str]:
    """What stacks that were started here, or loaded from a file, would start from."""
    for known in known_homes():
        try:
            state = orjson.loads((known.home / "state.json").read_bytes())
        except (OSError, ValueError):
            continue
        images = state.get("images")
        yield from images.values() if isinstance(images, dict) else ()
        yield state.get("base_image", "")


def _may_go(image: dict[str, Any], used: set[str]) -> bool:
    tags = _tags(image)
    if (image.get("Labels") or {}).get(LABEL_ROLE) not in ROLES or image["Id"] in used or used.intersection(tags):
        return False
    return all(tag.startswith("gym-") and "/" not in tag for tag in tags)  # a name of the user's own is the user's


def _is_loaded(image: dict[str, Any]) -> bool:
    """From a file of `gym save`: it cannot be built here."""
    return any(tag.startswith(f"{LOADED}:") for tag in _tags(image))


def _tags(image: dict[str, Any]) -> list[str]:
    return [tag for tag in image.get("RepoTags") or () if tag != "<none>:<none>"]


def _leftover(image: dict[str, Any]) -> Leftover:
    names = tuple(_tags(image)) or (image["Id"],)
    first = names[0].removeprefix("sha256:")[:60]
    shown = first if len(names) == 1 else f"{first} and {len(names) - 1} more names"
    return Leftover(kind="image", name=shown, bytes=image["Size"], used=float(image["Created"]), images=names)


def _family(image: dict[str, Any]) -> str:
    return str((image.get("Labels") or {}).get(LABEL_SOURCE, "base"))
