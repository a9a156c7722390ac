"""Is the engine fit for stacks: what `gym doctor` says about it, each finding with the command that fixes it."""

from __future__ import annotations

import ipaddress
import math
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from gym import labels
from gym.engine import connect, require_engine
from gym.errors import InfraError
from gym.runtime.compose.image_leftovers import older_images
from gym.runtime.compose.images import LABEL_ROLE
from gym.runtime.user_state import owner

if TYPE_CHECKING:
    import docker

STOCK_NETWORKS: Final = 31  # 15 of /16 and 16 of /20, where no pools are configured
FEW_NETWORKS: Final = 5
LITTLE_DISK: Final = 10 * 2**30
GIGABYTE: Final = 2**30
LATE_SECONDS: Final = 60.0
POOLS: Final = '"default-address-pools": [{"base": "10.200.0.0/16", "size": 26}] in /etc/docker/daemon.json'


class EngineFinding(NamedTuple):
    level: Literal["ok", "warn", "fail"]
    name: str
    found: str
    fix: str = ""


def examine_engine() -> tuple[EngineFinding, ...]:
    """Everything at once; without an engine, the one finding that says why."""
    try:
        engine = require_engine()
    except InfraError as error:
        return (EngineFinding("warn", "container engine", error.what, error.hint),)
    with connect(engine.host) as client:
        info: dict[str, Any] = client.api.info()
        version = EngineFinding(
            "ok", "container engine", f"{engine.version}, Compose {engine.compose} at {engine.host}"
        )
        return (
            version,
            networks_left(client.api.networks(filters={"driver": "bridge"}), info.get("DefaultAddressPools")),
            disk_left(Path(info.get("DockerRootDir", ""))),
            *limits_enforced(info),
            images_left(client),
            sandboxes_left(client.api.containers(all=True, filters={"label": labels.SANDBOX}), time.time()),
        )


def networks_left(networks: list[dict[str, Any]], pools: list[dict[str, Any]] | None) -> EngineFinding:
    """A stack takes one; an engine as it comes has room for about thirty."""
    total = (
        sum(2 ** (one["Size"] - ipaddress.ip_network(one["Base"]).prefixlen) for one in pools or ()) or STOCK_NETWORKS
    )
    left = total - len(networks)
    found = f"{left} of {total} left"
    if left > FEW_NETWORKS:
        return EngineFinding("ok", "networks", found)
    return EngineFinding("warn" if left > 0 else "fail", "networks", found, f"gym down --sweep; or more: {POOLS}")


def disk_left(root: Path) -> EngineFinding:
    try:
        free = shutil.disk_usage(root).free
    except OSError:
        return EngineFinding("ok", "engine's disk", f"{root} is not on this machine")
    found = f"{free / GIGABYTE:.1f} GB free in {root}"
    if free >= LITTLE_DISK:
        return EngineFinding("ok", "engine's disk", found)
    fix = "docker builder prune; docker image prune"
    return EngineFinding("warn" if free > GIGABYTE else "fail", "engine's disk", found, fix)


def limits_enforced(info: dict[str, Any]) -> tuple[EngineFinding, ...]:
    """What an engine without the kernel's help accepts and does not do."""
    wanted = {"MemoryLimit": "memory", "CpuCfsQuota": "cpus", "PidsLimit": "pids"}
    absent = [name for key, name in wanted.items() if not info.get(key)]
    if not absent:
        return (
            EngineFinding(
                "ok", "limits", f"memory, cpus and pids are enforced (cgroup v{info.get('CgroupVersion', '?')})"
            ),
        )
    fix = "enable these cgroup controllers for the engine (rootless: delegate them in systemd)"
    return (EngineFinding("warn", "limits", f"not enforced: {', '.join(absent)}", fix),)


def images_left(client: docker.DockerClient) -> EngineFinding:
    """Images of ours that nothing needs any more: older than another one of the same name."""
    listed: list[dict[str, Any]] = client.api.images(filters={"label": [LABEL_ROLE, f"{labels.OWNER}={owner()}"]})
    older = older_images(listed)
    if len(older) <= 20:
        return EngineFinding("ok", "images", f"{len(listed)} of ours, {len(older)} of them older ones")
    size = sum(one["Size"] for one in older) / GIGABYTE
    found = f"{len(older)} older ones of ours, {size:.1f} GB less what they share"
    return EngineFinding("warn", "images", found, "gym prune (takes only what nothing uses)")


def sandboxes_left(containers: list[dict[str, Any]], now: float) -> EngineFinding:
    """A sandbox ends by itself soon after its broker; one that is past its time was forgotten by both."""
    ours = [one for one in containers if labels.names_sandbox(_name(one), one["Labels"])]
    stacks = {one["Labels"].get(labels.STACK, "") for one in ours}
    late = [_name(one) for one in ours if now > _expires(one) + LATE_SECONDS]
    if late:
        found = f"{len(late)} of {len(ours)} are past their time"
        return EngineFinding("warn", "sandboxes", found, f"docker rm -f {' '.join(late)}")
    of = "1 stack" if len(stacks) == 1 else f"{len(stacks)} stacks"
    return EngineFinding("ok", "sandboxes", f"{len(ours)} on this engine, of {of}")


def _name(container: dict[str, Any]) -> str:
    return str((container.get("Names") or [""])[0]).lstrip("/")


def _expires(container: dict[str, Any]) -> float:
    try:
        return float(container["Labels"][labels.SANDBOX_EXPIRES])
    except (KeyError, ValueError):
        return math.inf
