"""What the parts of a stack are called where services, containers and hosts have names."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

ROUTER: Final = "router"
CONSOLE: Final = "console"
SANDBOX: Final = "sandbox"  # the broker
SERVICE: Final = "service"  # what a sidecar is, beside servers
UPSTREAM_FOLDER: Final = "upstreams"  # below a stack's home; in it one folder for each model, by its slug
ROUTES_FILE: Final = "stack.yml"  # the router's dynamic file
SYNCED_FOLDER: Final = "synced"  # of copies that containers of a watched stack read their sources from
WANTED_FILE: Final = "wanted.json"
SANDBOX_NOTES: Final = "sandboxes.json"  # below the notes of a stack: what its broker tells
NETWORK: Final = "stack"
PORT: Final = 8000  # where every server listens inside its container
TOKEN: Final = "gym_token"
PROJECT_MAX: Final = 36
LOG_PORT: Final = 8001  # where the console of a stack of containers receives what servers print
DNS_LABEL: Final = 63
_LABEL: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
FIRST_SHARED_PORT: Final = 10_000  # of the ports in a container that several instances share; the last is below those
SHARED_PORTS: Final = 20_000  # that the kernel gives to connections


def project_name(stack: str, home: Path) -> str:
    """One stack, one folder, one project: two of the same name in two folders never touch each other."""
    digest = hashlib.sha256(str(home).encode()).hexdigest()[:8]
    name = re.sub(r"[^a-z0-9]+", "-", stack.lower()).strip("-")
    return f"gym-{name[: PROJECT_MAX - 13].strip('-')}-{digest}" if name else f"gym-{digest}"


def service_name(slug: str, project: str) -> str:
    """The slug, unless `<project>-<slug>-<number>` would be too long for a name in DNS."""
    room = DNS_LABEL - len(project) - len("--1000")
    if len(slug) <= room:
        return slug
    return f"{slug[: room - 9].strip('-')}-{hashlib.sha256(slug.encode()).hexdigest()[:8]}"


def shared_port(instance: str) -> int:
    """Where an instance listens in a container that it shares. Its name alone decides: whichever joins or leaves, an
    old address means this instance or none."""
    return FIRST_SHARED_PORT + int(hashlib.sha256(instance.encode()).hexdigest()[:8], 16) % SHARED_PORTS


def replica_host(project: str, slug: str, number: int) -> str:
    """A container's name, which is its name in DNS too: one stable address a replica."""
    return f"{project}-{service_name(slug, project)}-{number}"


def label_value(text: str) -> str:
    """Of Kubernetes: as it is where it fits, else a digest; a label takes 63 plain characters."""
    return text if _LABEL.fullmatch(text) else hashlib.sha256(text.encode()).hexdigest()[:32]
