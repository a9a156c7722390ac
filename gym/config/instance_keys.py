"""The keys of an instance that say how its replicas run (docs/instances.md explains each), and that of includes."""

from __future__ import annotations

from typing import Final

FACTS: Final = (
    "image",
    "build",
    "replicas",
    "cpus",
    "memory",
    "env",
    "secrets",
    "gpus",
    "placement",
    "launch",
    "sandbox",
    "python_version",
    "services",
    "ray",
    "share",
)
CONFIG_PATHS: Final = "config_paths"  # at the top: the files that a file includes
KNOWN_FACTS: Final = f"beside its type an instance knows: {', '.join(sorted(FACTS))}"
