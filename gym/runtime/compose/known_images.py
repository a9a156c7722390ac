"""What the engine has under which names: an image's own digest, and the one that its registry knows it by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import docker


def image_ids(client: docker.DockerClient) -> dict[str, str]:
    """By tag, and by the digest of a registry: `redis:7`, `redis@sha256:…`."""
    return {
        name: one["Id"]
        for one in _listed(client)
        for name in (*(one.get("RepoTags") or ()), *(one.get("RepoDigests") or ()))
    }


def registry_digests(client: docker.DockerClient) -> dict[str, str]:
    """By tag; "" for an image that has been in no registry."""
    found: dict[str, str] = {}
    for one in _listed(client):
        known = {repository_of(name): name.partition("@")[2] for name in one.get("RepoDigests") or ()}
        found |= {tag: known.get(repository_of(tag), "") for tag in one.get("RepoTags") or ()}
    return found


def labels_of_images(client: docker.DockerClient, label: str) -> dict[str, str]:
    return {
        tag: str((one.get("Labels") or {}).get(label, ""))
        for one in _listed(client)
        for tag in one.get("RepoTags") or ()
    }


def with_tag(image: str) -> str:
    return image if "@" in image or ":" in image.rpartition("/")[2] else f"{image}:latest"


def repository_of(name: str) -> str:
    """Without its tag."""
    head, slash, last = name.partition("@")[0].rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _listed(client: docker.DockerClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.api.images()
    return found
