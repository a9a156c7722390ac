"""A plan for a cluster: secrets by name, images by content below a registry's prefix, sandboxes as pods.

Tokens are kept in the user's state folder, so that another render of the stack changes none of them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson

from gym import labels
from gym.errors import UserError
from gym.files import write_atomically
from gym.plan.model import Plan, RouterPlan, SandboxPlan
from gym.plan.plan_sidecars import reach_in_secrets, reach_sidecars
from gym.render.bake import StackImages
from gym.render.compose_sidecars import sidecar_secrets
from gym.render.host_urls import find_host_urls
from gym.render.kubernetes.cluster_facts import TOKEN, KubernetesFacts, host_of, namespace_of
from gym.render.kubernetes.folder import kubernetes_folder
from gym.render.kubernetes.servers import settings_text
from gym.render.render_request import RenderRequest
from gym.render.server_variables import sandbox_secret
from gym.runtime.compose.image_sources import read_image_sources
from gym.runtime.compose.images import plan_images
from gym.runtime.compose.secrets import replace_secrets, secret_names
from gym.runtime.sandbox_access import BrokerTokens, broker_config, keep_tokens
from gym.runtime.user_state import state_dir
from gym.venvs import cache_dir

ROUTER_TOKEN: Final = "router-token"


def kubernetes_texts(request: RenderRequest) -> dict[str, str]:
    """By path below the folder that `gym render --target kubernetes -o` names."""
    plan, values = _prepare(request.plan, request.secrets)
    images = plan_images(plan, read_image_sources(plan, Path("build"), cache_dir(os.environ)))
    folder = state_dir() / "kubernetes" / namespace_of(plan.stack)
    values[TOKEN] = _router_token(folder, request.secrets)
    config = ""
    if plan.sandbox is not None:
        plan = plan.model_copy(update={"sandbox": _on_pods(plan.sandbox, _reference(images.base, request.registry))})
        assert plan.sandbox is not None
        tokens = keep_tokens(folder, plan.sandbox)
        values |= {sandbox_secret(one): tokens.instances[one.name] for one in plan.services if one.sandbox}
        config = _config_text(plan.sandbox, plan, tokens)
    facts = _facts(plan, images, request.registry).model_copy(
        update={"broker_config": config, "secret_digests": _digests(values)}
    )
    return kubernetes_folder(plan, facts, values)


def _prepare(plan: Plan, given: Mapping[str, str]) -> tuple[Plan, dict[str, str]]:
    _check(plan)
    router = RouterPlan(host="0.0.0.0", port=plan.router.port, needs_token=True)
    located = reach_sidecars(plan, lambda one: (host_of(one.slug), one.spec.port))
    by_path = {path: value for path, value in given.items() if path != labels.ENV_TOKEN}
    by_path = reach_in_secrets(plan, by_path, lambda one: (host_of(one.slug), one.spec.port))
    named, values = replace_secrets(located, by_path)
    return named.model_copy(update={"router": router}), values


def _check(plan: Plan) -> None:
    for one in find_host_urls(plan):
        raise UserError(
            f"{one.key} is on this machine ({one.url}), which no pod of a cluster reaches.",
            f"Name an address that the cluster reaches: {one.key}=http://vllm.models.svc:8000/v1",
        )
    for sidecar in plan.sidecars:
        if not (sidecar.spec.image or sidecar.spec.build):
            raise UserError(f"{sidecar.name} has neither `image` nor `build`, and a cluster runs images.", "Write one.")
    if plan.sandbox is not None and plan.sandbox.provider not in ("auto", "kubernetes"):
        raise UserError(
            f"sandbox_provider is {plan.sandbox.provider}, and in a cluster sandboxes are pods.",
            "Leave it out, or write `sandbox_provider: kubernetes`.",
        )


def _on_pods(broker: SandboxPlan, base_image: str) -> SandboxPlan:
    options = {"helper_image": base_image, **(broker.settings.get("options") or {})}
    settings = {**broker.settings, "options": options}
    return broker.model_copy(update={"provider": "kubernetes", "settings": settings})


def _config_text(broker: SandboxPlan, plan: Plan, tokens: BrokerTokens) -> str:
    """The pods' own namespace is not the broker's."""
    namespace = f"{namespace_of(plan.stack)}-sandboxes"
    options = {"namespace": namespace, **broker.settings["options"]}
    settings = broker.model_copy(update={"settings": {**broker.settings, "options": options}})
    document = broker_config(settings, namespace_of(plan.stack), tokens)
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _facts(plan: Plan, images: StackImages, registry: str) -> KubernetesFacts:
    built = {one.tag for one in images.targets}
    asked = {one.name: secret_names(settings_text(plan, one) + str(one.container.env)) for one in plan.services}
    for one in plan.services:
        if one.sandbox:
            asked[one.name] = (*asked[one.name], sandbox_secret(one))
    asked |= {one.name: sidecar_secrets(one) for one in plan.sidecars}
    return KubernetesFacts(
        namespace=namespace_of(plan.stack),
        base_image=_reference(images.base, registry),
        images={name: _reference(tag, registry) if tag in built else tag for name, tag in images.by_instance.items()},
        secrets={name: names for name, names in asked.items() if names},
    )


def _digests(values: Mapping[str, str]) -> dict[str, str]:
    """A pod whose secret is another one is replaced."""
    return {name: hashlib.sha256(f"{name}={value}".encode()).hexdigest()[:8] for name, value in values.items()}


def _reference(tag: str, registry: str) -> str:
    """As `gym build --push PREFIX` names it."""
    return f"{registry.rstrip('/')}/{tag}" if registry else tag


def _router_token(folder: Path, given: Mapping[str, str]) -> str:
    token = (given.get(labels.ENV_TOKEN) or os.environ.get(labels.ENV_TOKEN, "")).strip()
    path = folder / ROUTER_TOKEN
    if not token and path.is_file():
        return path.read_text("utf-8").strip()
    token = token or secrets.token_hex(32)
    write_atomically(path, token)
    return token
