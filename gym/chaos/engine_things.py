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
            containers = [one for one in client.api.containers(all=True, filters=wanted) if not _waits_in_pool(one)]
            found |= {f"container {str(one['Names'][0]).lstrip('/')}" for one in containers if one.get("Names")}
            found |= {f"network {one['Name']}" for one in client.api.networks(filters=wanted)}
            found |= {f"volume {one['Name']}" for one in client.api.volumes(filters=wanted)["Volumes"] or []}
    return found


def _waits_in_pool(listed: dict[str, Any]) -> bool:
    found = listed.get("Labels") or {}
    return bool(found.get(labels.SANDBOX_WARM)) and not found.get(labels.SANDBOX_ROLLOUT)
