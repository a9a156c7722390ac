"""What the manifests share: names and labels, security, probes, sizes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gym import labels
from gym.errors import UserError
from gym.plan.model import Plan, Service
from gym.render.compose import MEMORY
from gym.render.kubernetes.cluster_facts import SECRETS, USER
from gym.wire.sandbox import parse_size
from gym.wire.server_types import KINDS
from gym.wire.stack_names import PORT, label_value

Tree = dict[str, Any]
NAME: Final = "app.kubernetes.io/name"
INSTANCE: Final = "app.kubernetes.io/instance"
COMPONENT: Final = "app.kubernetes.io/component"
REQUESTED_CPU: Final = "100m"  # where nothing is said: enough to be placed, no limit
REQUESTED_MEMORY: Final = 256 << 20
ROUTED_AWAY: Final = 4  # seconds: the router asks every three whether a replica can serve
STARTS: Final = {"periodSeconds": 2, "timeoutSeconds": 3, "failureThreshold": 300}  # ten minutes
READY: Final = {"periodSeconds": 5, "timeoutSeconds": 3, "failureThreshold": 2}
ALIVE: Final = {
    "periodSeconds": 10,
    "timeoutSeconds": 5,
    "failureThreshold": 12,
}  # a server that hangs ends itself sooner


def named(kind: str, name: str, plan: Plan, namespace: str, part: str, api: str = "v1") -> Tree:
    own = {**selected(plan, name), COMPONENT: part, "app.kubernetes.io/part-of": "compose-gym"}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace, "labels": own}}


def selected(plan: Plan, name: str) -> Tree:
    """The labels by which a Service, a policy or a controller finds its pods; they never change."""
    return {NAME: name, INSTANCE: label_value(plan.stack)}


def pod_metadata(plan: Plan, name: str, part: str, more: Mapping[str, str]) -> Tree:
    own = {labels.STACK: plan.stack, **more}
    plain = {key: label_value(value) for key, value in own.items()}
    return {"labels": {**selected(plan, name), COMPONENT: part, "app.kubernetes.io/part-of": "compose-gym", **plain}}


def pod_spec(container: Tree, *, grace: float, volumes: Sequence[Tree] = ()) -> Tree:
    """As the level `restricted` wants it; its account may ask the API for nothing."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": round(grace),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "2Gi"}}, *volumes],
    }


def confined(*, read_only: bool = True) -> Tree:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": read_only,
        "capabilities": {"drop": ["ALL"]},
    }


def variables(given: Mapping[str, str]) -> list[Tree]:
    """The cluster fills in `$(NAME)`; a doubled dollar sign is one that means itself."""
    return [{"name": key, "value": value.replace("$", "$$")} for key, value in given.items()]


def health_probes() -> Tree:
    """By a name of its own: a server answers to no other."""
    ask = {"httpGet": {"path": "/healthz", "port": PORT, "httpHeaders": [{"name": "Host", "value": "localhost"}]}}
    return {"startupProbe": ask | STARTS, "readinessProbe": ask | READY, "livenessProbe": ask | ALIVE}


def port_probes(port: int) -> Tree:
    ask = {"tcpSocket": {"port": port}}
    return {"startupProbe": ask | STARTS, "readinessProbe": ask | READY}


def drained() -> Tree:
    """It goes on serving until no one sends it anything new; then SIGTERM lets it finish what it has."""
    return {"lifecycle": {"preStop": {"exec": {"command": ["sleep", str(ROUTED_AWAY)]}}}}


def resources(cpus: float | None, memory: str | None, gpus: int | str | None = None, what: str = "") -> Tree:
    """What is said is both asked for and the most; where nothing is said, little is asked for."""
    memory_limit = str(memory or MEMORY)
    requests: Tree = {"cpu": _cpu(cpus) if cpus else REQUESTED_CPU}
    requests["memory"] = quantity(memory) if memory else quantity(str(REQUESTED_MEMORY))
    limits: Tree = {**({"cpu": _cpu(cpus)} if cpus else {}), "memory": quantity(memory_limit)}
    if gpus:
        limits["nvidia.com/gpu"] = str(_gpu_count(gpus, what))
    return {"requests": requests, "limits": limits}


def quantity(size: str) -> str:
    """`512m` means megabytes to Compose, and half a byte to Kubernetes."""
    found = int(parse_size(size))
    for unit, factor in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if found % factor == 0:
            return f"{found // factor}{unit}"
    return str(found)


def secret_volume(names: Sequence[str]) -> Tree:
    """Of all the stack's secrets, those of one pod."""
    items = [{"key": name, "path": name} for name in names]
    return {"name": "secrets", "secret": {"secretName": SECRETS, "defaultMode": 0o440, "items": items}}


def config_volume(name: str, config_map: str) -> Tree:
    return {"name": name, "configMap": {"name": config_map}}


def mounted(name: str, path: str, *, writable: bool = False) -> Tree:
    return {"name": name, "mountPath": path, **({} if writable else {"readOnly": True})}


def service_of(plan: Plan, name: str, namespace: str, part: str, ports: Mapping[str, int], *, headless: bool) -> Tree:
    found = named("Service", name, plan, namespace, part)
    listed = [{"name": key, "port": port, "targetPort": port} for key, port in ports.items()]
    found["spec"] = {"selector": selected(plan, name), "ports": listed}
    if headless:  # names of pods that are not ready stay what they are: the router knows by itself who can serve
        found["spec"] |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    return found


def deployment(
    plan: Plan, name: str, namespace: str, part: str, pod: Tree, more: Mapping[str, str] | None = None
) -> Tree:
    found = named("Deployment", name, plan, namespace, part, "apps/v1")
    template = {"metadata": pod_metadata(plan, name, part, more or {}), "spec": pod}
    found["spec"] = {"replicas": 1, "selector": {"matchLabels": selected(plan, name)}, "template": template}
    return found


def disruption_budget(plan: Plan, name: str, namespace: str, part: str) -> Tree:
    """One replica at a time: a session that is lost is another attempt, and not all of them at once."""
    found = named("PodDisruptionBudget", name, plan, namespace, part, "policy/v1")
    found["spec"] = {"maxUnavailable": 1, "selector": {"matchLabels": selected(plan, name)}}
    return found


def part_of(service: Service) -> str:
    return KINDS[service.type]


def _cpu(cpus: float) -> str:
    return f"{max(1, round(cpus * 1000))}m"


def _gpu_count(gpus: int | str, what: str) -> int:
    if str(gpus).isdigit():
        return int(gpus)
    raise UserError(f"{what}: `gpus: {gpus}`: a pod asks for a number of GPUs.", f"Write one: {what}.gpus=1")
