"""A plan with one of everything, and its folder for a cluster."""

from __future__ import annotations

from typing import Any

import yaml

from gym.config.model import ContainerFacts, SidecarSpec
from gym.plan.model import Plan, RouterPlan, SandboxPlan, Sidecar
from gym.render.kubernetes.cluster_facts import KubernetesFacts
from gym.render.kubernetes.folder import kubernetes_folder
from gym.wire.sandbox import Grant
from tests.support.compose_plans import service

Tree = dict[str, Any]
SECRET = "sk-very-secret"
PACKED = "registry.example.org/team/gpqa@sha256:" + "0" * 64


def cluster_plan(**changes: Any) -> Plan:
    """A model with a secret, two replicas, a grant, a sidecar, a foreign server, a foreign image, a packed one."""
    grant = Grant(images=("python:*",), network=("none", "allow"))
    redis = SidecarSpec(name="redis", port=6379, image="redis:8", volumes=("data:/data",), env={"A": "$HOME"})
    services = (
        service("policy_model", type="responses_api_models", fields={"api_key": "secret://policy_api_key"}),
        service("mcqa", replicas=2, container=ContainerFacts(cpus=1.5, memory="512m", gpus=1)),
        service("7b_store", sandbox=grant, needs=("policy_model",), fields={"text": "costs $5 and $(HOME)"}),
        service("agent", type="responses_api_agents", needs=("mcqa", "policy_model"), replicas=3),
        service("calendar", launch="script", needs=("policy_model",)),
        service("judge", launch="image", directory=None, container=ContainerFacts(image="example.org/judge:2")),
        service("gpqa", image_digest="sha256:0", container=ContainerFacts(image=PACKED, env={"A": "secret://b"})),
    )
    given: Tree = {
        "stack": "demo",
        "services": services,
        "sidecars": (Sidecar(instance="7b_store", instance_slug="7b-store", slug="7b-store-redis", spec=redis),),
        "sandbox": SandboxPlan(provider="kubernetes", grants={"7b_store": grant}),
        "router": RouterPlan(host="0.0.0.0", needs_token=True),
    }
    return Plan(**(given | changes))


def cluster_folder(plan: Plan) -> dict[str, str]:
    images = {one.name: f"registry.example.org/team/gym-{one.slug}:0123" for one in plan.services}
    images |= {one.name: one.container.image for one in plan.services if one.container.image}
    images |= {one.name: one.spec.image or "built" for one in plan.sidecars}
    values = {"policy_api_key": SECRET, "b": SECRET, "gym_token": SECRET, "gym-sandbox-7b-store": SECRET}
    facts = KubernetesFacts(
        namespace="gym-demo",
        base_image="registry.example.org/team/gym-base:0123",
        images=images,
        secrets={"policy_model": ("policy_api_key",), "gpqa": ("b",), "7b_store": ("gym-sandbox-7b-store",)},
        secret_digests={name: "01234567" for name in values},
        broker_config="{}\n",
    )
    return kubernetes_folder(plan, facts, values)


def manifests_in(folder: dict[str, str]) -> list[Tree]:
    texts = [text for path, text in folder.items() if path.endswith(".yaml") and "kustomization" not in path]
    return [tree for text in texts for tree in yaml.safe_load_all(text)]


def of_kind(manifests: list[Tree], *kinds: str) -> dict[str, Tree]:
    """By name; for those of which there is one of a name."""
    return {one["metadata"]["name"]: one for one in manifests if one["kind"] in kinds}
