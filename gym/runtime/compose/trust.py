"""What a saved stack would loosen on the machine that loads it. Pure: an allow-list, so what is unknown counts.

Compose keys that are not listed here, and values that are not plainly harmless, are findings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import yaml

from gym.plan.model import Plan

SAFE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
VOLUME: Final = re.compile(r"[A-Za-z0-9_-]+:/[^:]+(:r[ow])?")  # of the stack itself
IMAGE: Final = re.compile(r"[a-z0-9][A-Za-z0-9._/:@-]{0,255}")
LIMIT: Final = re.compile(r"(?=.*[1-9])[0-9]+(\.[0-9]+)?[a-zA-Z]{0,2}")
OWN_LABELS: Final = ("gym.", "com.docker.")
WHY: Final = {  # what a person should know of the keys that open most
    "privileged": "all rights of this machine",
    "volumes": "may mount folders of this machine",
    "cap_add": "rights of the kernel",
    "network_mode": "may be the network of this machine or of another container",
    "pid": "may see the processes of this machine",
    "ipc": "may share memory with this machine",
    "userns_mode": "may be root of this machine",
    "cgroup_parent": "its limits may be lifted",
    "devices": "devices of this machine",
    "security_opt": "may lift what confines a container",
    "ports": "is reached from outside of the stack",
    "extends": "reads a file of this machine",
    "include": "reads a file of this machine",
    "env_file": "reads a file of this machine",
    "build": "runs a build from files of this machine",
    "configs": "may read a file of this machine",
    "secrets": "may read a file of this machine",
    "image": "an image that is not in the file",
    "user": "may be root in its container",
    "networks": "may join a network of another stack",
    "name": "may be the project of another stack",
}

Check = Callable[[Any], bool]


def _is_plain(value: Any) -> bool:
    """`$` would read a variable of the user who loads the file."""
    if isinstance(value, str):
        return "$" not in value
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and "$" not in key and _is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(_is_plain(one) for one in value)
    return isinstance(value, (bool, int, float))


def _is_positive(value: Any) -> bool:
    """A limit; 0 and -1 mean none."""
    return (
        not isinstance(value, bool) and re.fullmatch(r"0*[1-9][0-9]*(\.[0-9]+)?[a-zA-Z]{0,2}", str(value)) is not None
    )


def _is_environment(value: Any) -> bool:
    """Each with its value: one without is taken from the shell."""
    if isinstance(value, list):
        return all(isinstance(one, str) and "=" in one for one in value) and _is_plain(value)
    return isinstance(value, Mapping) and _is_plain(value)


def _are_labels(value: Any) -> bool:
    names = value if isinstance(value, (list, Mapping)) else [""]
    return _is_plain(value) and all(str(one) and not str(one).startswith(OWN_LABELS) for one in names)


def _is_deploy(value: Any) -> bool:
    """Replicas, and limits of CPU and memory."""
    if not isinstance(value, Mapping) or not set(value) <= {"replicas", "resources"}:
        return False
    resources = value.get("resources", {})
    limits = resources.get("limits", {}) if isinstance(resources, Mapping) and set(resources) <= {"limits"} else None
    known = isinstance(limits, Mapping) and set(limits) <= {"cpus", "memory", "pids"}
    replicas = value.get("replicas", 1)
    return known and all(map(_is_positive, limits.values())) and isinstance(replicas, int)  # type: ignore[union-attr]


def _is_healthcheck(value: Any) -> bool:
    return isinstance(value, Mapping) and _is_plain(value)


def _is_mapping_of_nothing(value: Any) -> bool:
    return value is None or value == {}


SERVICE: Final[Mapping[str, Check]] = {
    "command": _is_plain,
    "entrypoint": _is_plain,
    "environment": _is_environment,
    "labels": _are_labels,
    "healthcheck": _is_healthcheck,
    "working_dir": _is_plain,
    "stop_grace_period": _is_plain,
    "stop_signal": _is_plain,
    "depends_on": _is_plain,
    "restart": _is_plain,
    "cpus": _is_positive,
    "mem_limit": _is_positive,
    "mem_reservation": _is_positive,
    "pids_limit": _is_positive,
    "shm_size": _is_positive,
    "deploy": _is_deploy,
    "init": lambda value: isinstance(value, bool),
    "read_only": lambda value: value is True,
}


def manifest_problems(plan: Plan, images: Mapping[str, str]) -> Iterator[str]:
    """Names that are not valid: they would become paths and arguments. Never loaded, also with `--trust`."""
    for service in plan.services:
        if not SLUG.fullmatch(service.slug):
            yield f"the server {service.name!r} has the slug {service.slug!r}"
        if service.name not in images:
            yield f"the server {service.name!r} has no image"
    for sidecar in plan.sidecars:
        if not SLUG.fullmatch(sidecar.slug) or not SLUG.fullmatch(sidecar.instance_slug):
            yield f"the service {sidecar.name!r} has the slug {sidecar.slug!r}"
        if sidecar.name not in images:
            yield f"the service {sidecar.name!r} has no image"
    for image in images.values():
        if not IMAGE.fullmatch(image):
            yield f"{image!r} is not a name of an image"


def plan_findings(plan: Plan, base_image: str) -> Iterator[str]:
    if plan.sandbox is not None:
        yield f"sandbox: {base_image} of the file gets the engine's socket: all rights of this machine"
    for service in plan.services:
        if service.container.gpus:
            yield f"{service.name}.gpus: {service.container.gpus} (devices of this machine)"
    for sidecar in plan.sidecars:
        for volume in sidecar.spec.volumes:
            if not VOLUME.fullmatch(volume):
                yield f"{sidecar.name}.volumes: {volume} (files of this machine)"


def override_findings(name: str, text: str) -> Iterator[str]:
    """Everything in a Compose file that is not known to be harmless."""
    if not SAFE_NAME.fullmatch(name):
        yield f"override {name!r}: not a name of a file"
        return
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield f"{name}: cannot be read: {str(error).splitlines()[0]}"
        return
    if not isinstance(tree, Mapping):
        yield f"{name}: not a Compose file"
        return
    for key, value in tree.items():
        if key == "services" and isinstance(value, Mapping):
            for service, block in value.items():
                yield from _service_findings(f"{name}: {service}", block)
        elif key == "networks" and isinstance(value, Mapping) and all(map(_is_mapping_of_nothing, value.values())):
            continue
        elif not str(key).startswith("x-"):  # its anchors count where they are used
            yield _finding(name, key, value)


def _service_findings(where: str, block: Any) -> Iterator[str]:
    if not isinstance(block, Mapping):
        yield f"{where}: not a mapping"
        return
    for key, value in block.items():
        check = SERVICE.get(key) if isinstance(key, str) else None
        if check is None or not check(value):
            yield _finding(where, key, value)


def _finding(where: str, key: Any, value: Any) -> str:
    why = WHY.get(str(key), "its value is not known to be harmless" if key in SERVICE else "not known to be harmless")
    return f"{where}.{key}: {str(value)[:120]} ({why})"
