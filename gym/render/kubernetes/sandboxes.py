"""The broker, and the namespace in which it may make pods, speak to them and delete them, and no more. Pure."""

from __future__ import annotations

from typing import Final

from gym import labels
from gym.plan.model import Plan
from gym.render.kubernetes.cluster_facts import KubernetesFacts
from gym.render.kubernetes.manifest_parts import (
    Tree,
    config_volume,
    confined,
    deployment,
    health_probes,
    mounted,
    named,
    pod_spec,
    resources,
    service_of,
    variables,
)
from gym.wire.stack_names import PORT, SANDBOX

CONFIG: Final = "sandbox-config"
CONFIG_MOUNT: Final = "/run/gym-sandbox"
RBAC: Final = "rbac.authorization.k8s.io/v1"
LEVEL: Final = "pod-security.kubernetes.io"
RULES: Final = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "watch", "delete"]},
    {"apiGroups": [""], "resources": ["pods/attach"], "verbs": ["create", "get"]},  # by `get` in older clusters
)


def namespace_manifests(plan: Plan, facts: KubernetesFacts) -> list[Tree]:
    """Task images run as whom they say, root too; without capabilities, the host's namespaces or its folders."""
    found = [_namespace(plan, facts.namespace, "restricted")]
    return [*found, *([_namespace(plan, facts.sandboxes, "baseline")] if plan.sandbox else [])]


def broker_manifests(plan: Plan, facts: KubernetesFacts) -> list[Tree]:
    account = named("ServiceAccount", SANDBOX, plan, facts.namespace, SANDBOX)
    role = named("Role", SANDBOX, plan, facts.sandboxes, SANDBOX, RBAC) | {"rules": [dict(one) for one in RULES]}
    binding = named("RoleBinding", SANDBOX, plan, facts.sandboxes, SANDBOX, RBAC)
    binding["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": SANDBOX}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": SANDBOX, "namespace": facts.namespace}]
    made = deployment(plan, SANDBOX, facts.namespace, SANDBOX, _pod(plan, facts), {labels.INSTANCE: SANDBOX})
    made["spec"]["strategy"] = {"type": "Recreate"}  # two of them would remove each other's sandboxes
    service = service_of(plan, SANDBOX, facts.namespace, SANDBOX, {"http": PORT}, headless=False)
    return [account, role, binding, service, made]


def _namespace(plan: Plan, name: str, level: str) -> Tree:
    found = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    levels = {f"{LEVEL}/{mode}": level for mode in ("enforce", "audit", "warn")}
    found["metadata"] = {"name": name, "labels": {"app.kubernetes.io/part-of": "compose-gym", **levels}}
    return found


def _pod(plan: Plan, facts: KubernetesFacts) -> Tree:
    container: Tree = {
        "name": SANDBOX,
        "image": facts.base_image,
        "command": ["python", "-m", "gym.broker"],
        "env": variables(
            {
                labels.ENV_LISTEN: f"0.0.0.0:{PORT}",
                labels.ENV_SANDBOX_CONFIG: f"{CONFIG_MOUNT}/config.json",
                labels.ENV_DRAIN: f"{plan.drain_seconds:g}",
            }
        ),
        "ports": [{"name": "http", "containerPort": PORT}],
        "resources": resources(None, "2g"),
        "securityContext": confined(),
        **health_probes(),
        "volumeMounts": [mounted("tmp", "/tmp", writable=True), mounted("config", CONFIG_MOUNT)],
    }
    grace = plan.drain_seconds + labels.BROKER_SECONDS
    pod = pod_spec(container, grace=grace, volumes=[config_volume("config", CONFIG)])
    return pod | {"automountServiceAccountToken": True, "serviceAccountName": SANDBOX}
