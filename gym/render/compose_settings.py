"""What a server in a container reads at its start, and where: a file of its own, or a variable. Pure."""

from __future__ import annotations

from typing import Final

from gym import labels
from gym.plan.model import Plan, Service
from gym.plan.shared_processes import container_slug
from gym.render.launch_document import HEAD, Address, launch_document
from gym.render.traefik import route_prefix
from gym.render.yaml_text import to_json
from gym.wire.stack_names import PORT, ROUTER, service_name, shared_port

LONG_DOCUMENT: Final = 100_000  # the kernel refuses one environment string of 128 KiB


def launch_text(plan: Plan, service: Service, project: str) -> str:
    """A server's settings, as JSON that a person can read and every YAML reader reads the same way."""
    return to_json(launch_document(plan, service, _addresses(plan, service, project)), indent=True) + "\n"


def settings_files(plan: Plan, project: str) -> dict[str, str]:
    """Below the stack's folder: what servers read at their start, each in a file that a person may read as well."""
    texts = [(one, launch_text(plan, one, project)) for one in plan.services]
    return {settings_file(one): text for one, text in texts if reads_file(one, text)}


def settings_file(service: Service) -> str:
    return f"config/{service.slug}.json"


def reads_file(service: Service, text: str) -> bool:
    """Our SDK reads a file; others know the variable, as long as it can hold the text."""
    return service.launch == "sdk" or len(text.encode()) > LONG_DOCUMENT


def _addresses(plan: Plan, service: Service, project: str) -> dict[str, Address]:
    """As this server sees the others. One not written for our SDK knows no replicas, so the router spreads for it."""
    found: dict[str, Address] = {}
    for one in plan.services:
        if service.launch == "sdk":
            found[one.name] = _address(one, project)
        else:
            found[one.name] = (ROUTER, f"{labels.ROUTER_PORT}{route_prefix(one)}")
    found[service.name] = ("0.0.0.0", _address(service, project)[1])
    found[HEAD] = (ROUTER, labels.ROUTER_PORT)
    return found


def _address(service: Service, project: str) -> tuple[str, int]:
    """Until discovery is read: of an instance in a shared process, that of its replica there."""
    if service.process:
        return service_name(container_slug(service.process), project), shared_port(service.name)
    return service_name(service.slug, project), PORT
