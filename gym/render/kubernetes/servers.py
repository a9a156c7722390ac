"""Instances as StatefulSets. Every one keeps something for its rollouts (a session, a run, recorded calls), so each
replica has a name of its own, which stays the same when its pod is another. Pure."""

from __future__ import annotations

from typing import Final

from gym import labels
from gym.plan.model import Plan, Service
from gym.render.compose import SETTINGS_MOUNT
from gym.render.compose_settings import LONG_DOCUMENT
from gym.render.kubernetes.cluster_facts import KubernetesFacts, host_of
from gym.render.kubernetes.manifest_parts import (
    ROUTED_AWAY,
    Tree,
    config_volume,
    confined,
    disruption_budget,
    drained,
    health_probes,
    mounted,
    named,
    part_of,
    pod_metadata,
    pod_spec,
    port_probes,
    resources,
    secret_volume,
    selected,
    service_of,
    variables,
)
from gym.render.launch_document import HEAD, Address, launch_document
from gym.render.server_variables import server_command, server_environment
from gym.render.traefik import route_prefix
from gym.render.yaml_text import to_json
from gym.wire.stack_names import PORT, ROUTER

SETTINGS: Final = "settings.json"
DISCOVERY: Final = "gym-discovery"
DISCOVERY_MOUNT: Final = "/run/gym"
MARGIN: Final = 10.0


def server_manifests(plan: Plan, service: Service, facts: KubernetesFacts) -> list[Tree]:
    name, part = host_of(service.slug), part_of(service)
    return [
        service_of(plan, name, facts.namespace, part, {"http": PORT}, headless=True),
        _stateful_set(plan, service, facts),
        disruption_budget(plan, name, facts.namespace, part),
    ]


def settings_text(plan: Plan, service: Service) -> str:
    """What a server reads at its start, as JSON that every YAML reader reads the same way."""
    return to_json(launch_document(plan, service, _addresses(plan, service)), indent=True) + "\n"


def settings_name(service: Service) -> str:
    return f"{host_of(service.slug)}-settings"


def _stateful_set(plan: Plan, service: Service, facts: KubernetesFacts) -> Tree:
    name, part = host_of(service.slug), part_of(service)
    secrets = facts.secrets.get(service.name, ())
    volumes = [config_volume("discovery", DISCOVERY), config_volume("settings", settings_name(service))]
    pod = pod_spec(
        _container(plan, service, facts),
        grace=plan.drain_seconds + ROUTED_AWAY + MARGIN,
        volumes=[*volumes, *([secret_volume(secrets)] if secrets else [])],
    )
    found = named("StatefulSet", name, plan, facts.namespace, part, "apps/v1")
    notes = {
        labels.INSTANCE: service.name,
        labels.TYPE: service.type,
        labels.DIGEST: service.digest,
        **facts.digest_of(secrets),
    }
    found["spec"] = {
        "serviceName": name,
        "replicas": service.replicas,
        "ordinals": {"start": 1},  # replicas are counted from 1 everywhere else
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": selected(plan, name)},
        "template": {"metadata": pod_metadata(plan, name, part, notes), "spec": pod},
    }
    return found


def _container(plan: Plan, service: Service, facts: KubernetesFacts) -> Tree:
    container = service.container
    mounts = [mounted("tmp", "/tmp", writable=True), mounted("discovery", DISCOVERY_MOUNT)]
    mounts.append(mounted("settings", SETTINGS_MOUNT.rpartition("/")[0] + "/gym-settings"))
    if facts.secrets.get(service.name):
        mounts.append(mounted("secrets", "/run/secrets"))
    command = server_command(service)
    return {
        "name": "server",
        "image": facts.images[service.name],
        **({"command": list(command)} if command else {}),
        "env": [*variables(_environment(plan, service)), _pod_name()],
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": resources(container.cpus, container.memory, container.gpus, service.name),
        "securityContext": confined(read_only=service.launch == "sdk"),  # others may write beside their code
        **(health_probes() if service.launch == "sdk" else port_probes(PORT)),
        **(drained() if service.launch != "image" else {}),  # who knows what programs such an image has
        "volumeMounts": mounts,
    }


def _environment(plan: Plan, service: Service) -> dict[str, str]:
    text = settings_text(plan, service)
    in_file = service.launch == "sdk" or len(text.encode()) > LONG_DOCUMENT
    where = f"{SETTINGS_MOUNT.rpartition('/')[0]}/gym-settings/{SETTINGS}"
    return {
        **server_environment(service),
        labels.ENV_INSTANCE: service.name,
        **({labels.ENV_CONFIG_FILE: where} if in_file else {labels.ENV_CONFIG: text}),
        labels.ENV_DISCOVERY: f"{DISCOVERY_MOUNT}/discovery.json",
        labels.ENV_DRAIN: f"{plan.drain_seconds:g}",
        labels.ENV_HOSTS: f".{host_of(service.slug)},.svc,.cluster.local",
    }


def _pod_name() -> Tree:
    return {"name": labels.ENV_REPLICA, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def _addresses(plan: Plan, service: Service) -> dict[str, Address]:
    """As this server sees the others. One not written for our SDK knows no replicas, so the router spreads for it."""
    ours = service.launch == "sdk"
    found: dict[str, Address] = {
        one.name: (host_of(one.slug), PORT) if ours else (ROUTER, f"{labels.ROUTER_PORT}{route_prefix(one)}")
        for one in plan.services
    }
    found[service.name] = ("0.0.0.0", PORT)
    found[HEAD] = (ROUTER, labels.ROUTER_PORT)
    return found
