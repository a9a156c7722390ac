"""Every change of a plan between `make_plan` and the engine. Pure; `up` alone adds one more, a free port."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field

from gym import labels
from gym.config import redact_text
from gym.errors import UserError
from gym.plan.model import Plan, RouterPlan, Value
from gym.plan.plan_sidecars import reach_in_secrets, reach_sidecars
from gym.plan.shared_processes import share_processes, tell_shared
from gym.render.compose_sidecars import address_in_container
from gym.render.host_urls import HostUrl, find_host_urls, reach_host, rewrite_urls
from gym.runtime.compose.image_sources import ImageSources
from gym.runtime.compose.images import plan_images
from gym.runtime.compose.secrets import replace_secrets
from gym.runtime.protocol import Prepared
from gym.wire.stack_names import TOKEN

PORTS: Final = {"http": 80, "https": 443}


class SharingFacts(Value):
    """What decides which instances share a container: see `share_processes`."""

    apart: frozenset[str] = frozenset()
    running: dict[str, str] = Field(default_factory=dict)


class HostFacts(Value):
    """What the plan does not say about this machine."""

    sources: ImageSources
    sharing: SharingFacts | None = None  # None: each instance has its own container
    gateway: str = ""  # this machine's address as containers see it; "" where no engine says it
    loopback_only: frozenset[int] = frozenset()  # ports that 127.0.0.1 answers on and the gateway refuses


def prepare(plan: Plan, secrets: Mapping[str, str], facts: HostFacts) -> Prepared:
    """Shared containers, sandboxes by the engine, URLs of this machine as containers reach them, secrets by name,
    images by content."""
    _check_sidecars(plan)
    if facts.sharing is not None:
        plan = share_processes(plan, secrets, facts.sharing.apart, facts.sharing.running)
    rewritten = reach_sidecars(reach_host(_choose_docker(plan)), address_in_container)
    by_path = {path: rewrite_urls(value) for path, value in secrets.items() if path != labels.ENV_TOKEN}
    by_path = reach_in_secrets(plan, by_path, address_in_container)
    named, values = replace_secrets(rewritten, by_path)
    return Prepared(
        plan=named,
        secrets=values | token_secret(plan.router, secrets.get(labels.ENV_TOKEN, "")),
        images=plan_images(named, facts.sources),
        notices=(
            *(["sandboxes: docker"] if plan.sandbox else []),
            *_host_notices(find_host_urls(plan), facts),
            *tell_shared(plan, "container"),
        ),
    )


def token_secret(router: RouterPlan, token: str) -> dict[str, str]:
    """The token that callers from outside have to send, as a secret of the router; empty where none is asked for."""
    if not router.needs_token:
        return {}
    if not token.strip():
        raise UserError(
            f"The router would listen on {router.host} without a token.",
            "Give one: `openssl rand -hex 32 > token.txt`, then `--token-file token.txt` (or set GYM_TOKEN).",
        )
    return {TOKEN: token.strip()}


def port_of(url: str) -> int:
    """0 where the URL makes no sense."""
    try:
        parts = urlsplit(url)
        return parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        return 0


def _choose_docker(plan: Plan) -> Plan:
    """In a stack of containers sandboxes are containers too: the broker's own has no rights to make others."""
    if plan.sandbox is None or plan.sandbox.provider == "docker":
        return plan
    if plan.sandbox.provider != "auto":
        raise UserError(
            f"sandbox_provider is {plan.sandbox.provider}, and on the compose runtime sandboxes are containers.",
            "Leave it out, or run the servers as processes as well: gym up ... --runtime local",
        )
    return plan.model_copy(update={"sandbox": plan.sandbox.model_copy(update={"provider": "docker"})})


def _check_sidecars(plan: Plan) -> None:
    for one in plan.sidecars:
        if not (one.spec.image or one.spec.build):
            raise UserError(
                f"{one.name} has neither `image` nor `build`, and on the compose runtime services are containers.",
                "Write one of them, or run it as a process: gym up ... --runtime local",
            )


def _host_notices(found: tuple[HostUrl, ...], facts: HostFacts) -> Iterator[str]:
    """One for each URL, under the last of its keys; none shows a secret."""
    for url, key in {one.url: one.key for one in found}.items():
        yield f"{redact_text(url)} is on this machine: containers get {redact_text(rewrite_urls(url))} ({key})." + (
            f"\nIt listens on 127.0.0.1 alone, where no container reaches it: let it listen on 0.0.0.0 or "
            f"{facts.gateway}, or run without containers: gym up --runtime local ..."
            if port_of(url) in facts.loopback_only
            else ""
        )
