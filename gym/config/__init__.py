"""What the user wrote -> a frozen, resolved and checked `Stack`; every problem at once, each with its file and line."""

from typing import TYPE_CHECKING

from gym.lazy import on_first_use

if TYPE_CHECKING:
    from gym.config.aliases import instance_names, known_as, other_names, path_variants
    from gym.config.assets import search_roots
    from gym.config.catalog import CatalogEntry, find_server, list_servers, own_fields
    from gym.config.loader import LoadRequest, load_stack
    from gym.config.model import ContainerFacts, Instance, Location, ServerRef, StackConfig
    from gym.config.redaction import collect_secrets, is_secret_key, redact, redact_text
    from gym.config.server_sources import (
        extra_lines,
        is_foreign,
        requirement_lines,
        requirements_digest,
        satisfied_extras,
        source_digest,
    )
    from gym.config.upstream_requirements import portable_requirements

__all__ = [
    "CatalogEntry",
    "ContainerFacts",
    "Instance",
    "LoadRequest",
    "Location",
    "ServerRef",
    "StackConfig",
    "collect_secrets",
    "extra_lines",
    "find_server",
    "instance_names",
    "is_foreign",
    "is_secret_key",
    "known_as",
    "list_servers",
    "load_stack",
    "other_names",
    "own_fields",
    "path_variants",
    "portable_requirements",
    "redact",
    "redact_text",
    "requirement_lines",
    "requirements_digest",
    "satisfied_extras",
    "search_roots",
    "source_digest",
]

__getattr__ = on_first_use(__name__)
