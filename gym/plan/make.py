"""A stack becomes a plan: slugs, order of dependencies, replicas, digests. Pure; the same stack gives the same plan."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from gym import __version__
from gym.config.model import ContainerFacts, Instance, StackConfig
from gym.errors import UserError
from gym.plan.digest import digest_of, digest_parts
from gym.plan.model import Launch, Plan, RouterPlan, Service
from gym.plan.plan_sidecars import plan_sidecars
from gym.plan.sandbox_plan import plan_sandbox
from gym.plan.slugs import assign_slugs
from gym.plan.visible_settings import settings_for
from gym.wire.allowed_hosts import PRIVATE
from gym.wire.telemetry import EXTRA, read_telemetry
from gym.wire.telemetry import KEY as TELEMETRY

MAX_REPLICAS = 1000
POLICY_URLS = "policy_urls"
LOOPBACK = frozenset({"localhost", "::1", "[::1]"})


def make_plan(
    stack: StackConfig,
    *,
    name: str = "gym",
    router: RouterPlan | None = None,
    replicas: Mapping[str, int] | None = None,
    drain_seconds: float = 30.0,
    sdk: str = __version__,
) -> Plan:
    """`replicas` overrides what the instances say; `sdk` tells SDKs apart: a version, or the digest of a wheel."""
    _check_replicas(stack, replicas or {})
    router = _guarded(router or RouterPlan())
    stack = _with_policy_urls(stack, router)
    slugs = assign_slugs(one.name for one in stack.instances)
    services = [_to_service(one, stack, slugs, replicas or {}) for one in stack.instances]
    return Plan(
        stack=name,
        services=tuple(_with_digest(one, stack, sdk) for one in sort_by_needs(services)),
        sidecars=plan_sidecars(stack),
        router=router,
        sandbox=plan_sandbox(stack, sdk),
        settings=stack.settings,
        drain_seconds=drain_seconds,
    )


def is_loopback(host: str) -> bool:
    return host in LOOPBACK or host.startswith("127.")


def sort_by_needs(services: Iterable[Service]) -> list[Service]:
    """What a service talks to comes before it; otherwise the order is kept. A circle is cut where it was entered."""
    todo = {one.name: one for one in services}
    placed: dict[str, Service] = {}

    def place(name: str, path: frozenset[str]) -> None:
        if name in placed or name in path or name not in todo:
            return
        for need in todo[name].needs:
            place(need, path | {name})
        placed[name] = todo[name]

    for name in todo:
        place(name, frozenset())
    return list(placed.values())


def _to_service(
    instance: Instance, stack: StackConfig, slugs: Mapping[str, str], replicas: Mapping[str, int]
) -> Service:
    needs = dict.fromkeys(ref.name for ref in instance.references if ref.name in slugs and ref.name != instance.name)
    return Service(
        name=instance.name,
        slug=slugs[instance.name],
        type=instance.type,
        implementation=instance.implementation,
        launch=_launch(instance),
        directory=instance.directory,
        image_digest=instance.image_digest,
        entrypoint=instance.entrypoint,
        requirements_digest=instance.requirements_digest,
        extras=_extras(instance, stack),
        python=_python(instance, stack),
        source_digest=instance.source_digest,
        fields=instance.fields,
        needs=tuple(needs),
        replicas=replicas.get(instance.name, instance.container.replicas),
        container=instance.container,
        sandbox=instance.sandbox,
    )


def _launch(instance: Instance) -> Launch:
    """A prebuilt image with a folder still says how it starts, so that the local runtime can run it from there."""
    facts: ContainerFacts = instance.container
    if instance.directory is None and facts.build is None:
        return "image"
    if facts.launch == "sdk":
        return "sdk"
    return "script" if instance.foreign or facts.launch == "script" else "sdk"


def _extras(instance: Instance, stack: StackConfig) -> tuple[str, ...]:
    """A packed image has what it was packed with."""
    if _launch(instance) != "sdk" or instance.image_digest:
        return ()
    traced = (EXTRA,) if read_telemetry(stack.settings.get(TELEMETRY), {}).on else ()
    shared = ("redis",) if instance.type == "resources_servers" and instance.fields.get("state") else ()
    return (*traced, *shared)


def _python(instance: Instance, stack: StackConfig) -> str:
    """Its own word; the stack's is for servers written against nemo_gym, as it is there."""
    general = stack.settings.get("python_version") if _launch(instance) == "script" else None
    return instance.container.python_version or str(general or "")


def _with_digest(service: Service, stack: StackConfig, sdk: str) -> Service:
    parts = digest_parts(service, settings=settings_for(stack.settings, service), sdk=sdk)
    return service.model_copy(update={"parts": parts, "digest": digest_of(parts)})


def _guarded(router: RouterPlan) -> RouterPlan:
    """A router that listens wider than on loopback always asks for a token."""
    return router if is_loopback(router.host) else router.model_copy(update={"needs_token": True})


def _with_policy_urls(stack: StackConfig, router: RouterPlan) -> StackConfig:
    """Callers on loopback can reach what this machine reaches anyway; callers from elsewhere cannot."""
    if stack.settings.get(POLICY_URLS) is not None or router.needs_token:
        return stack
    return stack.model_copy(update={"settings": {**stack.settings, POLICY_URLS: PRIVATE}})


def _check_replicas(stack: StackConfig, replicas: Mapping[str, int]) -> None:
    known = [one.name for one in stack.instances]
    for name, count in replicas.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or known
            raise UserError(f"no instance is called `{name}`", f"Did you mean {', '.join(near) or 'another stack'}?")
        if not 0 <= count <= MAX_REPLICAS:
            raise UserError(f"{name}: {count} replicas; 0 to {MAX_REPLICAS} are possible", f"gym scale {name}=2")
