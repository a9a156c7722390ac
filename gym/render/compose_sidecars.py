"""Sidecars as services of the Compose file: an instance shares a network with its own, and no one else does.

What is stored in a volume, or in a container, ends with the stack. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gym import labels
from gym.config.late_references import fill_own
from gym.plan.model import Plan, Service, Sidecar
from gym.render.compose_model import (
    ComposeNetwork,
    ComposeService,
    ComposeVolume,
    Condition,
    Deploy,
    Healthcheck,
    Joined,
    Mount,
)
from gym.wire.stack_names import SERVICE, service_name

SECRET: Final = re.compile(r"secret://([a-z0-9][a-z0-9_-]*)")
# What official images need to give their files to the user that they go on as.
CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")
FOLDER: Final = "/tmp"  # what `${folder}` is in a container
# Of these three programs nearly every image has one.
TCP: Final = (
    "nc -z 127.0.0.1 {port} 2>/dev/null"
    " || bash -c '</dev/tcp/127.0.0.1/{port}' 2>/dev/null"
    " || python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 3)'"
)
HTTP: Final = (
    "wget -q -O /dev/null 'http://127.0.0.1:{port}{path}' 2>/dev/null"
    " || curl -sf -o /dev/null 'http://127.0.0.1:{port}{path}' 2>/dev/null"
    " || python3 -c 'import urllib.request; urllib.request.urlopen(\"http://127.0.0.1:{port}{path}\", timeout=3)'"
)


def address_in_container(sidecar: Sidecar) -> tuple[str, int]:
    """Where its instance finds it: by a name that is known on their own network alone."""
    return sidecar.slug, sidecar.spec.port


def sidecar_services(plan: Plan, project: str, images: Mapping[str, str]) -> dict[str, ComposeService]:
    return {service_name(one.slug, project): _service(one, images[one.name]) for one in plan.sidecars}


def sidecar_networks(plan: Plan) -> dict[str, ComposeNetwork]:
    """Internal: a sidecar reaches nothing outside."""
    return {_network(one.slug): ComposeNetwork(internal=True) for one in plan.services if plan.sidecars_of(one.name)}


def sidecar_volumes(plan: Plan) -> dict[str, ComposeVolume]:
    return {mount.source: ComposeVolume() for one in plan.sidecars for mount in _mounts(one) if mount.source[0] != "/"}


def network_with_sidecars(plan: Plan, service: Service) -> tuple[str, ...]:
    return (_network(service.slug),) if plan.sidecars_of(service.name) else ()


def wait_for_sidecars(plan: Plan, service: Service, project: str) -> dict[str, Condition]:
    """A server may ask its database while it starts."""
    names = (service_name(one.slug, project) for one in plan.sidecars_of(service.name))
    return {name: Condition(condition="service_healthy") for name in names}


def sidecar_secrets(sidecar: Sidecar) -> tuple[str, ...]:
    """The names of the secrets that it asks for."""
    found = (name for value in sidecar.spec.env.values() for name in SECRET.findall(value))
    return tuple(dict.fromkeys(found))


def _service(sidecar: Sidecar, image: str) -> ComposeService:
    spec = sidecar.spec
    return ComposeService(
        base="service",
        image=image,
        command=own_words(spec.arguments, sidecar) or None,
        environment=sidecar_environment(sidecar) or None,
        secrets=sidecar_secrets(sidecar) or None,
        volumes=_mounts(sidecar) or None,
        deploy=Deploy(replicas=1),
        cpus=spec.cpus,
        mem_limit=spec.memory,
        cap_add=CAPABILITIES,
        networks={_network_of(sidecar): Joined(aliases=(sidecar.slug,))},
        stop_grace_period="10s",
        healthcheck=_healthcheck(sidecar),
        labels={labels.INSTANCE: sidecar.name, labels.TYPE: SERVICE, labels.DIGEST: sidecar.digest},
    )


def sidecar_environment(sidecar: Sidecar) -> dict[str, str]:
    """A secret comes as a file, and its variable says which, as official images have it."""
    given: dict[str, str] = {}
    for key, value in sidecar.spec.env.items():
        secret = SECRET.fullmatch(value)
        given |= {f"{key}_FILE": f"/run/secrets/{secret[1]}"} if secret else {key: value}
    return {key: own_words((value,), sidecar)[0] for key, value in given.items()}


def _healthcheck(sidecar: Sidecar) -> Healthcheck | None:
    health, port = sidecar.spec.health, sidecar.spec.port
    if health.kind == "none":
        return None
    if health.kind == "command":
        return Healthcheck(test=("CMD", *own_words(health.command, sidecar)))
    text = TCP.format(port=port) if health.kind == "tcp" else HTTP.format(port=port, path=health.path)
    return Healthcheck(test=("CMD-SHELL", text))


def own_words(words: tuple[str, ...], sidecar: Sidecar) -> tuple[str, ...]:
    return tuple(fill_own(list(words), sidecar.spec.port, FOLDER))


def _mounts(sidecar: Sidecar) -> tuple[Mount, ...]:
    found = []
    for volume in sidecar.spec.volumes:
        source, target, *mode = volume.split(":")
        named = source if source.startswith("/") else f"{sidecar.slug}-{source.lower()}"
        found.append(Mount(source=named, target=target, writable=mode != ["ro"]))
    return tuple(found)


def _network_of(sidecar: Sidecar) -> str:
    return _network(sidecar.instance_slug)


def _network(slug: str) -> str:
    return f"{slug}-services"
