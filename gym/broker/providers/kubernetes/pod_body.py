"""A spec as a Pod, written field by field, so that nothing of a request passes through. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from gym import labels
from gym.broker.provider import Tags
from gym.broker.providers.docker.create_body import ID, OPEN_FILES, THREAD_VARIABLES, TMP_BYTES
from gym.wire.failures import RolloutError
from gym.wire.sandbox import SandboxSpec
from gym.wire.stack_names import label_value

HELPER_AT: Final = "/.gym"
HELPER: Final = f"{HELPER_AT}/helper"
SILENCE_SECONDS: Final = 30  # without a broker a sandbox ends by itself
CONTAINER: Final = "sandbox"
APP: Final = "app.kubernetes.io/name"
PART_OF: Final = "app.kubernetes.io/part-of"
USER: Final = re.compile(r"(root|\d{1,9})(?::(root|\d{1,9}))?")
RLIMIT_FSIZE, RLIMIT_CORE, RLIMIT_NOFILE = "1", "4", "7"
# Beside what a broker ends itself: a node that is gone gives its pods up after five minutes by default.
NODE_GONE_SECONDS: Final = 30
# As a sandbox's own image may have no shell and no copy: the broker's image has both, and the helpers.
COPY: Final = f"install -m 0111 {{folder}}/gym-helper-$(uname -m) {HELPER}"


class PodSetup(NamedTuple):
    """What a spec does not say."""

    helper_image: str
    helper_folder: str
    longest_seconds: float  # beside its TTL, by which a sandbox may still be extended
    runtime_classes: Mapping[str, str]
    pull_secrets: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = {}
    env: tuple[str, ...] = ()  # NAME=value, from an egress gate
    dns: tuple[str, ...] = ()


def pod_name(tags: Tags) -> str:
    return f"gym-{tags.id}"


def pod_body(spec: SandboxSpec, tags: Tags, setup: PodSetup) -> dict[str, Any]:
    if not ID.fullmatch(tags.id):
        raise ValueError(f"not a sandbox's id: {tags.id!r}")
    volumes = [{"name": "helper", "emptyDir": {"sizeLimit": "16Mi"}}, *_tmpfs_volumes(spec)]
    body: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": math.ceil(spec.ttl + setup.longest_seconds),
        "terminationGracePeriodSeconds": 1,  # 0 would take it off the list while it may still run
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostname": tags.id,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [_gone("not-ready"), _gone("unreachable")],
        **_dns(spec, setup),
        "initContainers": [_copy_helper(setup)],
        "containers": [_container(spec, setup)],
        "volumes": volumes,
    }
    if spec.runtime is not None:
        body["runtimeClassName"] = setup.runtime_classes.get(spec.runtime, spec.runtime)
    if setup.pull_secrets:
        body["imagePullSecrets"] = [{"name": name} for name in setup.pull_secrets]
    if setup.node_selector:
        body["nodeSelector"] = dict(setup.node_selector)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(spec, tags), "spec": body}


def selector(stack: str) -> str:
    """Of every sandbox of a stack."""
    return f"{labels.STACK}={label_value(stack)},{labels.SANDBOX}"


def tags_of(metadata: Mapping[str, Any]) -> Tags:
    """Empty where it was not written by a broker."""
    try:
        return Tags(**orjson.loads((metadata.get("annotations") or {})[labels.SANDBOX_TAGS]))
    except (KeyError, TypeError, orjson.JSONDecodeError):
        return Tags("", "", "", "")


def _metadata(spec: SandboxSpec, tags: Tags) -> dict[str, Any]:
    access = (spec.network.setup or spec.network).access
    own = {
        labels.STACK: tags.stack,
        labels.INSTANCE: tags.instance,
        labels.SANDBOX: tags.id,
        labels.SANDBOX_OWNER: tags.owner,
        labels.SANDBOX_ROLLOUT: tags.rollout,
        labels.SANDBOX_NETWORK: "internet" if access == "internet" else "none",  # the gate needs none
        APP: "sandbox",
        PART_OF: "compose-gym",
    }
    notes = {labels.SANDBOX_TAGS: orjson.dumps(tags._asdict()).decode()}
    if spec.labels:
        notes["gym.labels"] = orjson.dumps(spec.labels).decode()
    return {
        "name": pod_name(tags),
        "labels": {key: label_value(value) for key, value in own.items()},
        "annotations": notes,
    }


def _container(spec: SandboxSpec, setup: PodSetup) -> dict[str, Any]:
    mounts = [{"name": "helper", "mountPath": HELPER_AT, "readOnly": True}]
    mounts += [{"name": f"tmpfs-{at}", "mountPath": path} for at, path in enumerate(_tmpfs(spec))]
    found: dict[str, Any] = {
        "name": CONTAINER,
        "image": spec.image,
        "imagePullPolicy": "IfNotPresent",
        "command": _command(spec),
        "args": [],
        "stdin": True,
        "stdinOnce": False,
        "env": _environment(spec, setup),
        "resources": _resources(spec),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": spec.read_only,
            "capabilities": {"drop": ["ALL"]},
            **_user(spec.user),
        },
        "volumeMounts": mounts,
    }
    if spec.workdir is not None:
        found["workingDir"] = spec.workdir
    return found


def _copy_helper(setup: PodSetup) -> dict[str, Any]:
    return {
        "name": "helper",
        "image": setup.helper_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", COPY.format(folder=setup.helper_folder)],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "helper", "mountPath": HELPER_AT}],
    }


def _command(spec: SandboxSpec) -> list[str]:
    limits = [RLIMIT_NOFILE, str(OPEN_FILES), RLIMIT_CORE, "0"]
    limits += [RLIMIT_FSIZE, str(spec.limits.disk)] if spec.limits.disk is not None else []
    launch = [word for at in range(0, len(limits), 2) for word in ("--limit", *limits[at : at + 2])]
    silence = str(SILENCE_SECONDS)
    return [HELPER, "--launch", *launch, "--", HELPER, "--guard", "--silence", silence, "--linger", silence]


def _environment(spec: SandboxSpec, setup: PodSetup) -> list[dict[str, str]]:
    """The cluster fills in `$(NAME)`; a doubled dollar sign is one that means itself."""
    threads = dict.fromkeys(THREAD_VARIABLES, str(max(1, math.ceil(spec.limits.cpus))))
    gated = dict(entry.split("=", 1) for entry in setup.env)
    found = {**threads, **spec.env, **gated}
    return [{"name": name, "value": value.replace("$", "$$")} for name, value in found.items()]


def _resources(spec: SandboxSpec) -> dict[str, Any]:
    limits = {"cpu": f"{max(1, math.ceil(spec.limits.cpus * 1000))}m", "memory": str(spec.limits.memory)}
    if spec.limits.disk is not None:
        limits["ephemeral-storage"] = str(spec.limits.disk)
    return {"requests": dict(limits), "limits": limits}


def _user(user: str | None) -> dict[str, int]:
    if not user:
        return {}
    found = USER.fullmatch(user)
    if found is None:
        raise RolloutError(
            "row",
            f"`user: {user}`: a pod names its user by number. Write that number, or leave it out.",
            retryable=False,
            status=422,
        )
    uid = int(found[1].replace("root", "0"))
    return {"runAsUser": uid, **({"runAsGroup": int(found[2].replace("root", "0"))} if found[2] else {})}


def _tmpfs(spec: SandboxSpec) -> dict[str, int]:
    asked = dict(sorted(spec.mounts.items()))
    if spec.read_only:
        asked.setdefault("/tmp", min(TMP_BYTES, spec.limits.memory))
    return asked


def _tmpfs_volumes(spec: SandboxSpec) -> list[dict[str, Any]]:
    sizes = _tmpfs(spec).values()
    return [
        {"name": f"tmpfs-{at}", "emptyDir": {"medium": "Memory", "sizeLimit": str(size)}}
        for at, size in enumerate(sizes)
    ]


def _dns(spec: SandboxSpec, setup: PodSetup) -> dict[str, Any]:
    """A sandbox without a network asks no one: names fail at once, instead of after a minute."""
    if (spec.network.setup or spec.network).access == "internet":
        return {"dnsPolicy": "Default"}  # the node's: of the cluster's services it hears nothing
    return {"dnsPolicy": "None", "dnsConfig": {"nameservers": [*(setup.dns or ("127.0.0.1",))]}}


def _gone(what: str) -> dict[str, Any]:
    return {
        "key": f"node.kubernetes.io/{what}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": NODE_GONE_SECONDS,
    }
