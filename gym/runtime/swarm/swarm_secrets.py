"""Secrets of a stack as objects of the Swarm. They cannot be changed, so each value has a name of its own; a name tells
nothing of the value, for it is made with a key that only this stack's folder has.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from gym import labels
from gym.files import write_atomically
from gym.render.swarm import NAMESPACE
from gym.runtime.compose.layout import Layout

if TYPE_CHECKING:
    import docker

KEY: Final = "naming-key"
SHOWN: Final = 15  # of a name, which may have 64 letters in all


def create_secrets(
    client: docker.DockerClient, layout: Layout, project: str, values: Mapping[str, str]
) -> dict[str, str]:
    """Those that are missing. By our names, those of the Swarm."""
    key = _naming_key(layout)
    named = {name: _name_of(project, name, value, key) for name, value in values.items()}
    there = {one["Spec"]["Name"] for one in _ours(client.api.secrets, project)}
    about = {NAMESPACE: project, labels.STACK_DIR: str(layout.home)}
    for name, value in values.items():
        if named[name] not in there:
            client.api.create_secret(named[name], value.encode(), labels=about)
    return named


def remove_others(client: docker.DockerClient, project: str, kept: Collection[str], configs: Collection[str]) -> None:
    """What no service of ours names any more. One that a task still uses is left for the next time."""
    import docker.errors  # noqa: PLC0415

    for listed, used, remove in (
        (client.api.secrets, kept, client.api.remove_secret),
        (client.api.configs, configs, client.api.remove_config),
    ):
        for one in _ours(listed, project):
            if one["Spec"]["Name"] not in used:
                with suppress(docker.errors.APIError):
                    remove(one["ID"])


def _ours(listed: Any, project: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = listed(filters={"label": f"{NAMESPACE}={project}"})
    return found


def _name_of(project: str, name: str, value: str, key: bytes) -> str:
    digest = hmac.new(key, f"{name}\0{value}".encode(), hashlib.sha256).hexdigest()[:10]
    return f"{project}_{name[:SHOWN].rstrip('-_')}-{digest}"


def _naming_key(layout: Layout) -> bytes:
    path = layout.secrets / KEY
    if not path.is_file():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, secrets.token_hex(32))
    return path.read_bytes()
