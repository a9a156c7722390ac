"""Sidecars: one pod beside an instance, which alone reaches it. Pure."""

from __future__ import annotations

from typing import Final

from gym import labels
from gym.errors import UserError
from gym.plan.model import Plan, Sidecar
from gym.render.compose_sidecars import own_words, sidecar_environment, sidecar_secrets
from gym.render.kubernetes.cluster_facts import KubernetesFacts, host_of
from gym.render.kubernetes.manifest_parts import (
    READY,
    STARTS,
    Tree,
    confined,
    mounted,
    named,
    pod_metadata,
    pod_spec,
    resources,
    secret_volume,
    selected,
    service_of,
    variables,
)

PART: Final = "service"
GRACE: Final = 10.0
STORAGE: Final = "5Gi"


def sidecar_manifests(plan: Plan, sidecar: Sidecar, facts: KubernetesFacts) -> list[Tree]:
    """What it stores stays where its pod is another, until the namespace goes."""
    name = host_of(sidecar.slug)
    secrets = sidecar_secrets(sidecar)
    pod = pod_spec(_container(sidecar, facts), grace=GRACE, volumes=[secret_volume(secrets)] if secrets else [])
    found = named("StatefulSet", name, plan, facts.namespace, PART, "apps/v1")
    notes = {labels.INSTANCE: sidecar.name, labels.DIGEST: sidecar.digest, **facts.digest_of(secrets)}
    found["spec"] = {
        "serviceName": name,
        "replicas": 1,
        "selector": {"matchLabels": selected(plan, name)},
        "template": {"metadata": pod_metadata(plan, name, PART, notes), "spec": pod},
        **({"volumeClaimTemplates": claims} if (claims := _claims(sidecar)) else {}),
    }
    return [service_of(plan, name, facts.namespace, PART, {"own": sidecar.spec.port}, headless=True), found]


def _container(sidecar: Sidecar, facts: KubernetesFacts) -> Tree:
    spec, arguments = sidecar.spec, own_words(sidecar.spec.arguments, sidecar)
    mounts = [mounted("tmp", "/tmp", writable=True)]
    mounts += [mounted(name, target, writable=writable) for name, target, writable in _volumes(sidecar)]
    if sidecar_secrets(sidecar):
        mounts.append(mounted("secrets", "/run/secrets"))
    return {
        "name": PART,
        "image": facts.images[sidecar.name],
        **({"args": list(arguments)} if arguments else {}),
        "env": variables(sidecar_environment(sidecar)),
        "ports": [{"name": "own", "containerPort": spec.port}],
        "resources": resources(spec.cpus, spec.memory),
        "securityContext": confined(read_only=False),
        **_probes(sidecar),
        "volumeMounts": mounts,
    }


def _probes(sidecar: Sidecar) -> Tree:
    health, port = sidecar.spec.health, sidecar.spec.port
    if health.kind == "none":
        return {}
    if health.kind == "http":
        ask: Tree = {"httpGet": {"path": health.path, "port": port}}
    elif health.kind == "command":
        ask = {"exec": {"command": list(own_words(health.command, sidecar))}}
    else:
        ask = {"tcpSocket": {"port": port}}
    return {"startupProbe": ask | STARTS, "readinessProbe": ask | READY}


def _claims(sidecar: Sidecar) -> list[Tree]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": STORAGE}}}
    return [{"metadata": {"name": name}, "spec": wanted} for name, _, _ in _volumes(sidecar)]


def _volumes(sidecar: Sidecar) -> list[tuple[str, str, bool]]:
    found = []
    for volume in sidecar.spec.volumes:
        source, target, *mode = volume.split(":")
        if source.startswith(("/", ".")):
            raise UserError(
                f"{sidecar.name}: `volumes: {volume}` is a place of this machine, which no node of a cluster has.",
                "Put the files into its image (`build:`), or name a volume: `data:/path`.",
            )
        found.append((source.lower().replace("_", "-").replace(".", "-"), target, mode != ["ro"]))
    return found
