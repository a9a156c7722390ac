"""Which instances live in one process: those of the same server that have nothing of their own but fields. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gym.config.model import ContainerFacts
from gym.config.redaction import redact
from gym.plan.digest import digest_value
from gym.plan.model import Plan, Service
from gym.plan.slugs import slugify
from gym.plan.visible_settings import settings_for
from gym.wire.telemetry import KEY as TELEMETRY
from gym.wire.telemetry import read_telemetry


def share_processes(plan: Plan, secrets: Collection[str] = ()) -> Plan:
    """`secrets`: the dotted paths of secrets. Two or more that are alike share; one alone has its own process."""
    groups: dict[str, list[str]] = {}
    for service in plan.services:
        if _may_share(plan, service, secrets):
            groups.setdefault(_likeness(service), []).append(service.name)
    process_of: dict[str, str] = {}
    for names in groups.values():
        if len(names) > 1:
            process_of |= dict.fromkeys(names, _process_name(plan, names[0], set(process_of.values())))
    services = (one.model_copy(update={"process": process_of.get(one.name, "")}) for one in plan.services)
    return plan.model_copy(update={"services": tuple(services)})


def processes_of(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The ids of processes, each with the replicas in it, in the plan's order. Of an instance that was scaled the first
    replica stays in the shared process, and the others have their own: nothing has to be restarted."""
    found: dict[str, tuple[str, ...]] = {}
    for service in plan.services:
        for number, replica in enumerate(service.replica_ids()):
            process = service.process if service.process and number == 0 else replica
            found[process] = (*found.get(process, ()), replica)
    return found


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


def _may_share(plan: Plan, service: Service, secrets: Collection[str]) -> bool:
    facts = service.container
    plain = facts.model_copy(update={"share": None, "launch": "auto"}) == ContainerFacts()
    traced = read_telemetry(plan.settings.get(TELEMETRY), {}).on  # spans name their process
    own = service.sandbox is not None or bool(plan.sidecars_of(service.name)) or service.replicas != 1
    return (
        facts.share is True
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


def _process_name(plan: Plan, first: str, taken: Collection[str]) -> str:
    """No slug has a dot."""
    owner = plan.service(first)
    assert owner is not None
    name = f"{slugify(owner.implementation)}.shared"
    return next(one for one in (name, *(f"{name}-{number}" for number in range(2, 1000))) if one not in taken)
