"""The sidecars of a plan, one for each entry of `services:`; and a plan that knows where they listen. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gym.config.late_references import fill_services
from gym.config.model import SidecarSpec, StackConfig
from gym.plan.digest import digest_of, digest_value
from gym.plan.model import Plan, Service, Sidecar
from gym.plan.slugs import assign_slugs

Locate = Callable[[Sidecar], tuple[str, int]]


def plan_sidecars(stack: StackConfig) -> tuple[Sidecar, ...]:
    """Instances have their slugs first: that a stack gets a sidecar renames none of them."""
    instances = [one.name for one in stack.instances]
    names = [f"{one.name}.{spec.name}" for one in stack.instances for spec in one.sidecars]
    slugs = assign_slugs([*instances, *names])
    return tuple(
        _with_digest(one.name, slugs[one.name], slugs[f"{one.name}.{spec.name}"], spec)
        for one in stack.instances
        for spec in one.sidecars
    )


def reach_sidecars(plan: Plan, locate: Locate) -> Plan:
    """The plan with `${service:redis}` of each instance filled in: host and port as the instance sees them."""
    if not plan.sidecars:
        return plan
    services = tuple(_reached(one, addresses_of(plan, one.name, locate)) for one in plan.services)
    return plan.model_copy(update={"services": services})


def reach_in_secrets(plan: Plan, secrets: Mapping[str, str], locate: Locate) -> dict[str, str]:
    """The same for secrets by path: `redis://:password@${service:redis}` is one."""
    found = dict(secrets)
    for instance in {one.instance for one in plan.sidecars}:
        addresses = addresses_of(plan, instance, locate)
        own = {path: value for path, value in found.items() if path.startswith(f"{instance}.")}
        found |= fill_services(own, addresses)
    return found


def addresses_of(plan: Plan, instance: str, locate: Locate) -> dict[str, tuple[str, int]]:
    return {one.spec.name: locate(one) for one in plan.sidecars_of(instance)}


def _reached(service: Service, addresses: Mapping[str, tuple[str, int]]) -> Service:
    env = fill_services(service.container.env, addresses)
    container = service.container.model_copy(update={"env": env})
    return service.model_copy(update={"fields": fill_services(service.fields, addresses), "container": container})


def _with_digest(instance: str, instance_slug: str, slug: str, spec: SidecarSpec) -> Sidecar:
    parts = {
        "image": [spec.image, spec.build, spec.command, spec.arguments],
        "configuration": [instance, spec.name, spec.port, spec.health.model_dump(), spec.env],
        "container": [spec.volumes, spec.cpus, spec.memory],
    }
    short = {name: digest_value(value)[:12] for name, value in parts.items()}
    digest = digest_of(short)
    return Sidecar(instance=instance, instance_slug=instance_slug, slug=slug, spec=spec, parts=short, digest=digest)
