"""What a container engine holds of a stack, by label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gym import labels
from gym.engine import connect, engine_host


def labelled_things(home: Path, project: str) -> set[str]:
    """Containers, networks and volumes; sandboxes that wait in the pool are not counted."""
    found: set[str] = set()
    with connect(engine_host()) as client:
        for label in (f"{labels.STACK_DIR}={home}", f"{labels.STACK}={project}"):
            wanted = {"label": label}
            containers = [one for one in client.api.containers(all=True, filters=wanted) if is_in_use(one)]
            found |= {f"container {str(one['Names'][0]).lstrip('/')}" for one in containers if one.get("Names")}
            found |= {f"network {one['Name']}" for one in client.api.networks(filters=wanted)}
            found |= {f"volume {one['Name']}" for one in client.api.volumes(filters=wanted)["Volumes"] or []}
    return found


def is_in_use(listed: dict[str, Any]) -> bool:
    """Not a sandbox that waits in the pool: its name tells no owner."""
    found = listed.get("Labels") or {}
    return not found.get(labels.SANDBOX_WARM) or any("." in name for name in listed.get("Names") or ())
