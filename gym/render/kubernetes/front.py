"""The router and the console of a stack in a cluster. Pure."""

from __future__ import annotations

from typing import Final

from gym import labels
from gym.plan.model import Plan
from gym.render.kubernetes.cluster_facts import OUTSIDE_PORT, TOKEN, KubernetesFacts
from gym.render.kubernetes.manifest_parts import (
    ROUTED_AWAY,
    Tree,
    config_volume,
    confined,
    deployment,
    disruption_budget,
    drained,
    health_probes,
    mounted,
    pod_spec,
    port_probes,
    resources,
    secret_volume,
    service_of,
    variables,
)
from gym.render.kubernetes.servers import DISCOVERY, DISCOVERY_MOUNT, MARGIN
from gym.wire.stack_names import CONSOLE, PORT, ROUTER

STATIC: Final = "router-static"
ROUTES: Final = "router-routes"
CONSOLE_CONFIG: Final = "console-config"
STATIC_MOUNT: Final = "/etc/gym-router"
ROUTES_MOUNT: Final = "/etc/traefik/dynamic"
CONSOLE_MOUNT: Final = "/run/gym-console"


def router_manifests(plan: Plan, facts: KubernetesFacts) -> list[Tree]:
    container: Tree = {
        "name": ROUTER,
        "image": facts.router_image,
        "args": [f"--configFile={STATIC_MOUNT}/static.yml"],
        "ports": [
            {"name": "inside", "containerPort": labels.ROUTER_PORT},
            {"name": "outside", "containerPort": OUTSIDE_PORT},
        ],
        "resources": resources(None, "1g"),
        "securityContext": confined(),
        **port_probes(labels.ROUTER_PORT),
        "volumeMounts": [
            mounted("tmp", "/tmp", writable=True),
            mounted("static", STATIC_MOUNT),
            mounted("routes", ROUTES_MOUNT),
        ],
    }
    volumes = [config_volume("static", STATIC), config_volume("routes", ROUTES)]
    pod = pod_spec(container, grace=plan.drain_seconds + MARGIN, volumes=volumes)
    ports = {"inside": labels.ROUTER_PORT, "outside": OUTSIDE_PORT}
    return [
        service_of(plan, ROUTER, facts.namespace, ROUTER, ports, headless=False),
        deployment(plan, ROUTER, facts.namespace, ROUTER, pod, {labels.INSTANCE: ROUTER, labels.TYPE: ROUTER}),
        disruption_budget(plan, ROUTER, facts.namespace, ROUTER),
    ]


def console_manifests(plan: Plan, facts: KubernetesFacts) -> list[Tree]:
    container: Tree = {
        "name": CONSOLE,
        "image": facts.base_image,
        "command": ["python", "-m", "gym.console"],
        "env": variables(
            {
                labels.ENV_LISTEN: f"0.0.0.0:{PORT}",
                labels.ENV_DISCOVERY: f"{DISCOVERY_MOUNT}/discovery.json",
                labels.ENV_CONSOLE: f"{CONSOLE_MOUNT}/console.json",
                labels.ENV_TOKEN_FILE: f"/run/secrets/{TOKEN}",
            }
        ),
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": resources(None, "1g"),
        "securityContext": confined(),
        **health_probes(),
        **drained(),
        "volumeMounts": [
            mounted("tmp", "/tmp", writable=True),
            mounted("discovery", DISCOVERY_MOUNT),
            mounted("console", CONSOLE_MOUNT),
            mounted("secrets", "/run/secrets"),
        ],
    }
    volumes = [config_volume("discovery", DISCOVERY), config_volume("console", CONSOLE_CONFIG)]
    pod = pod_spec(container, grace=ROUTED_AWAY + MARGIN, volumes=[*volumes, secret_volume((TOKEN,))])
    return [
        service_of(plan, CONSOLE, facts.namespace, CONSOLE, {"http": PORT}, headless=False),
        deployment(
            plan, CONSOLE, facts.namespace, CONSOLE, pod, {labels.INSTANCE: CONSOLE, **facts.digest_of((TOKEN,))}
        ),
    ]
