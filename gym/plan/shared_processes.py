"""Which instances live in one process: those of the same server that have nothing of their own but fields. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from gym.config.model import ContainerFacts
from gym.config.redaction import redact
from gym.config.share import is_known_to_share
from gym.plan.digest import digest_value
from gym.plan.model import Observed, Plan, Service
from gym.plan.slugs import RESERVED, slugify
from gym.plan.visible_settings import settings_for
from gym.wire.stack_names import shared_port
from gym.wire.telemetry import KEY as TELEMETRY
from gym.wire.telemetry import read_telemetry

SHARING: Final = ("compose", "local")


def share_processes(
    plan: Plan,
    secrets: Collection[str] = (),
    apart: Collection[str] = (),
    running: Mapping[str, str] | None = None,
) -> Plan:
    """`secrets`: the dotted paths of secrets. `apart`: instances with something of their own that no plan knows. Two or
    more that are alike share; one alone has its own process.

    `running`: those that run, each with the process that it shares or "". Who says nothing of sharing stays there: an
    environment that is added must not replace the process of the others, nor one that goes move them elsewhere. Who
    asks for it joins the rest.
    """
    running = running or {}
    groups: dict[tuple[str, str], list[str]] = {}
    for service in plan.services:
        stays = service.name in running and service.container.share is None
        process = running.get(service.name, "") if stays else ""
        if service.name not in apart and not (stays and not process) and _may_share(plan, service, secrets):
            groups.setdefault((_likeness(service), process), []).append(service.name)
    taken = {*RESERVED, *(one.slug for one in plan.services), *(one.slug for one in plan.sidecars)}
    taken |= {container_slug(process) for _, process in groups if process}
    process_of: dict[str, str] = {}
    for (_, process), alike in groups.items():
        names = _with_own_ports(alike)
        if process in process_of.values():  # of those in it, these are now unlike the others
            process = ""
        if len(names) > 1 or process:
            process = process or _process_name(plan, names[0], taken)
            taken.add(container_slug(process))
            process_of |= dict.fromkeys(names, process)
    services = (one.model_copy(update={"process": process_of.get(one.name, "")}) for one in plan.services)
    return plan.model_copy(update={"services": tuple(services)})


def running_processes(former: Plan | None, observed: Observed) -> dict[str, str]:
    """What `share_processes` asks of a stack that `former` was the plan of: its instances that run."""
    services = former.services if former else ()
    return {one.name: one.process for one in services if one.name in observed.services}


def processes_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The ids of processes, each with the replicas in it, in the plan's order. Of an instance that was scaled the first
    replica stays in the shared process, and the others have their own: nothing has to be restarted."""
    found: dict[str, tuple[str, ...]] = {}
    for service in plan.services:
        for number, replica in enumerate(service.replica_ids()):
            process = service.process if service.process and number == 0 else replica
            found[process] = (*found.get(process, ()), replica)
    return found


def shared_processes(plan: Plan) -> dict[str, tuple[Service, ...]]:
    """Those that instances share, each with the instances in it."""
    found: dict[str, tuple[Service, ...]] = {}
    for service in plan.services:
        if service.process and service.replicas:
            found[service.process] = (*found.get(service.process, ()), service)
    return found


def container_slug(process: str) -> str:
    """What a process that instances share is called where it is a container; it is not the slug of an instance."""
    return process.replace(".", "-")


def owners_of(plan: Plan) -> dict[str, Service]:
    """The instance of each replica."""
    return {replica: service for service in plan.services for replica in service.replica_ids()}


def digests_of_processes(plan: Plan) -> dict[str, str]:
    """Of each: that of its instance, or of all that are in it."""
    owners = owners_of(plan)
    return {
        process: owners[process].digest
        if process in owners
        else digest_value([[owners[one].name, owners[one].digest] for one in replicas])[:32]
        for process, replicas in processes_of(plan).items()
    }


def tell_shared(plan: Plan, place: str) -> tuple[str, ...]:
    """A line for each process that instances share. `place`: what they live in, such as a container."""
    return tuple(
        f"share: {len(members)} {members[0].implementation} in one {place}, {container_slug(process)}"
        for process, members in shared_processes(plan).items()
        if len(members) > 1
    )


def tell_unshared(plan: Plan, where: str) -> tuple[str, ...]:
    """One line where instances ask to share, and `where`, a runtime or an engine, gives each its own."""
    asking = [one.name for one in plan.services if one.container.share and where not in SHARING]
    return (f"share: not used by {where}, where each instance has its own: {_some(asking)}.",) if asking else ()


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _may_share(plan: Plan, service: Service, secrets: Collection[str]) -> bool:
    facts = service.container
    plain = facts.model_copy(update={"share": None, "launch": "auto"}) == ContainerFacts()
    traced = read_telemetry(plan.settings.get(TELEMETRY), {}).on  # spans name their process
    own = service.sandbox is not None or bool(plan.sidecars_of(service.name)) or service.replicas != 1
    return (
        (is_known_to_share(service) if facts.share is None else facts.share)
        and plain
        and service.launch == "sdk"
        and service.directory is not None
        and not (traced or own or _has_secret(plan, service, secrets))
    )


def _has_secret(plan: Plan, service: Service, secrets: Collection[str]) -> bool:
    seen = {"fields": service.fields, "settings": settings_for(plan.settings, service)}
    return redact(seen) != seen or any(path.startswith(f"{service.name}.") for path in secrets)


def _likeness(service: Service) -> str:
    """All that a digest covers but what it is configured to do: code, requirements, Python, SDK, visible settings."""
    parts: Mapping[str, str] = {name: value for name, value in service.parts.items() if name != "configuration"}
    return digest_value([service.type, service.implementation, service.extras, parts])


def _with_own_ports(names: Sequence[str]) -> list[str]:
    """Those that no other one's port is in the way of, in their order; of two with the same one, the first by name."""
    first: dict[int, str] = {}
    for name in sorted(names):
        first.setdefault(shared_port(name), name)
    return [name for name in names if first[shared_port(name)] == name]


def _process_name(plan: Plan, first: str, taken: Collection[str]) -> str:
    """No slug has a dot; and `taken` has what a container of that name may not be called."""
    owner = plan.service(first)
    assert owner is not None
    name = f"{slugify(owner.implementation)}.shared"
    names = (name, *(f"{name}-{number}" for number in range(2, 1000)))
    return next(one for one in names if container_slug(one) not in taken)
