"""The Swarm behind the engine: is there one, may this node change it, and where do its nodes find images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gym.errors import InfraError, UserError
from gym.render.bake import StackImages
from gym.render.compose import ROUTER_IMAGE
from gym.runtime.compose.server_builds import push_images

if TYPE_CHECKING:
    import docker

INIT: Final = "Make one: docker swarm init --advertise-addr ADDRESS; on other nodes: docker swarm join ..."


class SwarmSeen(NamedTuple):
    node: str  # this engine's id in the Swarm
    nodes: dict[str, str]  # names by id


def find_swarm(client: docker.DockerClient) -> SwarmSeen:
    facts = client.info()["Swarm"]
    if facts["LocalNodeState"] != "active":
        raise InfraError(f"This engine is in no Swarm (its state is `{facts['LocalNodeState']}`).", INIT)
    if not facts["ControlAvailable"]:
        raise InfraError(
            "This node of the Swarm is a worker, and only a manager can change services.",
            "Type this on a manager, or make this node one, there: docker node promote NODE",
        )
    names = {one["ID"]: str(one["Description"]["Hostname"]) for one in client.api.nodes()}
    return SwarmSeen(facts["NodeID"], names)


def check_registry(swarm: SwarmSeen, registry: str) -> None:
    others = len(swarm.nodes) - 1
    if others and not registry:
        raise UserError(
            f"The Swarm has {others} other node{'s' if others > 1 else ''}, where images that are built here are not.",
            "Name a registry that all of them reach: gym up --on swarm --registry HOST:PORT/PREFIX ...",
        )


def images_in_registry(images: StackImages, registry: str) -> dict[str, str]:
    """By the name that they have here, where nodes find those that we build, and the router's."""
    ours = [images.base, *(one.tag for one in images.targets), ROUTER_IMAGE]
    return {tag: f"{registry}/{tag}" if registry else tag for tag in ours}


def push_all(images: StackImages, registry: str, host: str) -> None:
    if registry:
        push_images(images_in_registry(images, registry), registry, host)
