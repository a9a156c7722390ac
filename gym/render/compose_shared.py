"""Instances that share a process as one service of the Compose file, each with its name, settings and port. Pure.

What they have in common by the rule of `gym.plan.shared_processes` (image, networks) is taken from the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import orjson

from gym import labels
from gym.plan.model import Plan, Service
from gym.plan.model_upstreams import FOLDER, takes_upstreams
from gym.plan.shared_processes import container_slug, digests_of_processes, shared_processes
from gym.render.compose_model import MEMORY_GB, ComposeService, Deploy, Mount, served
from gym.render.compose_settings import launch_text, settings_file
from gym.wire.server_types import KINDS
from gym.wire.stack_names import service_name, shared_port

SHARED_MOUNT: Final = "/run/gym-shared.json"
SETTINGS_FOLDER: Final = "/run/gym-config"
UPSTREAMS_FOLDER: Final = "/run/gym-upstreams"
OF_ONE: Final = frozenset({labels.ENV_INSTANCE, labels.ENV_CONFIG_FILE, labels.ENV_UPSTREAMS})
MOUNTS_OF_ONE: Final = ("./config/", f"./{FOLDER}/")
NAMED: Final = 4  # in the comment above it


def shared_service(plan: Plan, process: str, alone: Sequence[ComposeService], project: str) -> ComposeService:
    """`alone`: what each would be in a container of its own."""
    members, first = shared_processes(plan)[process], alone[0]
    text = shared_text(members)
    texts = [text, *(launch_text(plan, one, project) for one in members)]
    ports = [str(shared_port(one.name)) for one in members]
    return first.model_copy(
        update={
            "environment": {key: value for key, value in (first.environment or {}).items() if key not in OF_ONE}
            | {labels.ENV_SHARED: SHARED_MOUNT, labels.ENV_REPLICA: container_slug(process)},
            "volumes": (*_common_mounts(first), *_own_mounts(process, members)),
            "extra_hosts": next((one.extra_hosts for one in alone if one.extra_hosts), None),
            "mem_limit": f"{MEMORY_GB * len(members)}g",
            "deploy": Deploy(replicas=1),
            "healthcheck": served("/healthz", "200", *ports),
            "labels": {
                labels.INSTANCE: container_slug(process),
                labels.INSTANCES: orjson.dumps({one.name: one.digest for one in members}).decode(),
                labels.TYPE: members[0].type,
                labels.DIGEST: digests_of_processes(plan)[process],
                labels.SETTINGS: hashlib.sha256("".join(texts).encode()).hexdigest()[:12],
            },
        }
    )


def shared_name(process: str, project: str) -> str:
    """Of its service."""
    return service_name(container_slug(process), project)


def shared_names(plan: Plan, project: str) -> tuple[str, ...]:
    return tuple(shared_name(process, project) for process in shared_processes(plan))


def shared_files(plan: Plan) -> dict[str, str]:
    """Below the stack's folder, beside the settings of each instance."""
    return {_shared_file(process): shared_text(members) for process, members in shared_processes(plan).items()}


def shared_text(members: Sequence[Service]) -> str:
    """The variables of each instance, as `gym.server.shared_process` reads them."""
    own: list[dict[str, Any]] = [
        {
            labels.ENV_INSTANCE: one.name,
            labels.ENV_REPLICA: f"{one.slug}-1",
            labels.ENV_CONFIG_FILE: f"{SETTINGS_FOLDER}/{one.slug}.json",
            labels.ENV_LISTEN: f"0.0.0.0:{shared_port(one.name)}",
            **({labels.ENV_UPSTREAMS: f"{UPSTREAMS_FOLDER}/{one.slug}"} if takes_upstreams(one) else {}),
        }
        for one in members
    ]
    return orjson.dumps(own, option=orjson.OPT_INDENT_2).decode() + "\n"


def shared_comment(members: Sequence[Service]) -> str:
    names = ", ".join(one.name for one in members[:NAMED])
    more = f" and {len(members) - NAMED} more" if len(members) > NAMED else ""
    what = f"{KINDS[members[0].type]} {members[0].implementation}"
    return f"{len(members)} instances of the {what} in one process: {names}{more}"


def _shared_file(process: str) -> str:
    """No slug has a dot."""
    return f"config/{process}.json"


def _common_mounts(first: ComposeService) -> tuple[Mount, ...]:
    return tuple(one for one in first.volumes or () if not one.source.startswith(MOUNTS_OF_ONE))


def _own_mounts(process: str, members: Sequence[Service]) -> tuple[Mount, ...]:
    settings = (Mount(source=f"./{settings_file(one)}", target=f"{SETTINGS_FOLDER}/{one.slug}.json") for one in members)
    upstreams = (
        Mount(source=f"./{FOLDER}/{one.slug}", target=f"{UPSTREAMS_FOLDER}/{one.slug}")
        for one in members
        if takes_upstreams(one)
    )
    return (Mount(source=f"./{_shared_file(process)}", target=SHARED_MOUNT), *settings, *upstreams)
