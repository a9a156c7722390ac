"""The files of a stack for a cluster, by path, for `kubectl apply -k`. Values of secrets are in secrets/ alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from gym import labels
from gym.plan.model import Plan
from gym.render.console_document import console_document
from gym.render.kubernetes.cluster_facts import OUTSIDE_PORT, SECRETS, KubernetesFacts, cluster_wanted, host_of
from gym.render.kubernetes.front import (
    CONSOLE_CONFIG,
    ROUTES,
    ROUTES_MOUNT,
    STATIC,
    console_manifests,
    router_manifests,
)
from gym.render.kubernetes.manifest_parts import Tree
from gym.render.kubernetes.policies import policies
from gym.render.kubernetes.sandboxes import CONFIG, broker_manifests, namespace_manifests
from gym.render.kubernetes.servers import DISCOVERY, SETTINGS, server_manifests, settings_name, settings_text
from gym.render.kubernetes.shard_jobs import claim_manifest, collect_job, collector_dockerfile, merge_job
from gym.render.kubernetes.sidecars import sidecar_manifests
from gym.render.routes import next_discovery, router_text
from gym.render.traefik import traefik_static
from gym.render.wanted_stack import discovery_of, sights_of
from gym.render.yaml_text import to_yaml
from gym.wire.discovery import Discovery

BASE: Final = "base"
KUSTOMIZE: Final = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
MADE: Final = "Written by gym. Changes of your own go into an overlay, which the next `gym render` leaves alone."
ANY_NAME: Final = {"disableNameSuffixHash": True}  # who mounts it reads it again, and goes on


def kubernetes_folder(plan: Plan, facts: KubernetesFacts, values: Mapping[str, str]) -> dict[str, str]:
    """Texts by path. `values` are those of the secrets, by name."""
    manifests = _manifests(plan, facts)
    configs = _configs(plan, facts)
    found = {f"{BASE}/{path}": _documents(trees) for path, trees in manifests.items()}
    found |= {f"{BASE}/{path}": text for path, text in configs.items()}
    found |= {f"{BASE}/secrets/{name}": value for name, value in sorted(values.items())}
    found[f"{BASE}/kustomization.yaml"] = to_yaml(_kustomization(plan, facts, manifests, sorted(values)), MADE)
    found[f"{BASE}/.gitignore"] = "secrets/\n"
    found["overlays/dev/kustomization.yaml"] = to_yaml(_dev_overlay(plan), "An example: one replica of each.")
    found |= {
        "collect/Dockerfile": collector_dockerfile(facts),
        "collect/collect.yaml": _documents([claim_manifest(plan, facts), collect_job(plan, facts)]),
        "collect/merge.yaml": _documents([merge_job(plan, facts)]),
    }
    return found


def _manifests(plan: Plan, facts: KubernetesFacts) -> dict[str, list[Tree]]:
    found = {"namespaces.yaml": namespace_manifests(plan, facts)}
    found |= {f"servers/{host_of(one.slug)}.yaml": server_manifests(plan, one, facts) for one in plan.services}
    found |= {f"services/{host_of(one.slug)}.yaml": sidecar_manifests(plan, one, facts) for one in plan.sidecars}
    found |= {"router.yaml": router_manifests(plan, facts), "console.yaml": console_manifests(plan, facts)}
    if plan.sandbox:
        found["sandbox-broker.yaml"] = broker_manifests(plan, facts)
    found["network-policies.yaml"] = policies(plan, facts)
    return found


def _configs(plan: Plan, facts: KubernetesFacts) -> dict[str, str]:
    wanted = cluster_wanted(plan)
    discovery = next_discovery(_discovery(plan), None)
    outside, inside = f":{OUTSIDE_PORT}", f":{labels.ROUTER_PORT}"
    found = {
        "router/static.yml": traefik_static(plan, directory=ROUTES_MOUNT, outside=outside, inside=inside),
        "router/stack.yml": router_text(wanted, discovery),
        "discovery.json": discovery.model_dump_json(indent=2) + "\n",
        "console.json": _json(console_document(plan)),
    }
    found |= {f"settings/{host_of(one.slug)}.json": settings_text(plan, one) for one in plan.services}
    if plan.sandbox:
        found["sandbox/config.json"] = facts.broker_config
    return found


def _discovery(plan: Plan) -> Discovery:
    """Every replica that is wanted: its name is known before it runs, and the router asks each for its health."""
    wanted = cluster_wanted(plan)
    return discovery_of(wanted, {one.name: sights_of(wanted, one, healthy=True) for one in wanted.services})


def _kustomization(plan: Plan, facts: KubernetesFacts, manifests: Iterable[str], secrets: Iterable[str]) -> Tree:
    live = [(STATIC, "router/static.yml", {}), (ROUTES, "router/stack.yml", ANY_NAME)]
    live += [(DISCOVERY, "discovery.json", ANY_NAME), (CONSOLE_CONFIG, "console.json", ANY_NAME)]
    own: list[tuple[str, str, dict[str, Any]]] = [
        (settings_name(one), f"{SETTINGS}=settings/{host_of(one.slug)}.json", {}) for one in plan.services
    ]
    broker: list[tuple[str, str, dict[str, Any]]] = [(CONFIG, "sandbox/config.json", {})] if plan.sandbox else []
    namespace = {"namespace": facts.namespace}
    return {
        **KUSTOMIZE,
        "resources": [*manifests],
        "configMapGenerator": [
            {"name": name, **namespace, "files": [file], **({"options": options} if options else {})}
            for name, file, options in (*live, *own, *broker)
        ],
        "secretGenerator": [
            {"name": SECRETS, **namespace, "files": [f"secrets/{name}" for name in secrets], "options": ANY_NAME}
        ],
    }


def _dev_overlay(plan: Plan) -> Tree:
    return {
        **KUSTOMIZE,
        "resources": [f"../../{BASE}"],
        "labels": [{"pairs": {"gym/overlay": "dev"}}],
        "replicas": [{"name": host_of(one.slug), "count": 1} for one in plan.services],
    }


def _documents(trees: Iterable[Tree]) -> str:
    return f"# {MADE}\n" + "---\n".join(to_yaml(tree) for tree in trees)


def _json(document: Mapping[str, Any]) -> str:
    return orjson.dumps(document, default=str, option=orjson.OPT_INDENT_2).decode() + "\n"
