"""A server's folder -> its Dockerfile: <= 10 lines, requirements in their own layer. Pure: it is given the template."""

from __future__ import annotations

import json
from typing import Final

from gym.plan.model import Service

# What no server runs from: an edited test builds nothing, and whole data sets stay with the collector.
IGNORED: Final = (
    "**/__pycache__",
    "**/*.pyc",
    "**/.git",
    "**/.venv",
    "**/.pytest_cache",
    "**/.mypy_cache",
    "**/.ruff_cache",
    "tests",
    "data/train*",
    "data/validation*",
)
CONSTRAINTS: Final = "/opt/gym/server.txt"


def render_dockerfile(
    template: str, service: Service, *, base: str, requirements: str = "", overrides: str = ""
) -> str:
    """`requirements` and `overrides` are files' names in the server's folder, empty when there is nothing to install.

    A server written against nemo_gym gets an environment of its own, so that its versions and ours never meet.
    """
    import jinja2  # noqa: PLC0415 (the broker's image is the SDK's, which has none, and imports this by the way)

    foreign = service.launch == "script"
    command = ["python", service.entrypoint] if foreign else ["python", "-m", "gym.server.serve", service.entrypoint]
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.from_string(template).render(
        title=service.implementation,
        base=base,
        own_environment=foreign and bool(requirements),
        requirements=requirements,
        overrides=overrides,
        constraints="" if foreign else CONSTRAINTS,
        command=json.dumps(["gym-with-secrets", *command] if foreign else command),
    )


def render_ignore() -> str:
    return "".join(f"{pattern}\n" for pattern in IGNORED)
