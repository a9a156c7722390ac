"""A server's folder -> its Dockerfile: <= 10 lines, requirements in their own layer. Pure: it is given the template."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Final

from gym.plan.model import Service
from gym.render.launch_document import upstream_name

# What no server runs from: an edited test builds nothing, and whole data sets stay with the collector. Secrets of who
# works in the folder (the state of a stack, env.yaml) and what was collected there belong into no image.
IGNORED: Final = (
    "**/__pycache__",
    "**/*.pyc",
    "**/.git",
    "**/.venv",
    "**/.pytest_cache",
    "**/.mypy_cache",
    "**/.ruff_cache",
    "**/.gym",
    "**/.env",
    "env.yaml",
    "rollouts*.json*",
    "tests",
    "data/train*",
    "data/validation*",
)
STARTER: Final = "/usr/local/bin/gym-script"


def render_dockerfile(
    template: str,
    service: Service,
    *,
    base: str,
    requirements: str = "",
    overrides: str = "",
    packages: Sequence[str] = (),
    locked: bool = False,
    portable: bool = False,
) -> str:
    """`requirements` and `overrides` are files' names in the server's folder, empty when there is nothing to install;
    `packages` are of the system. `locked`: the requirements come with their hashes from the build context of that name
    instead. `portable`: what stands for them outside of the repository they are meant in comes from the context of that
    name.

    A server written against nemo_gym gets an environment of its own, so that its versions and ours never meet, and so
    does one that asks for another Python than the base has; if it is one of ours, the SDK comes from the context `sdk`.
    """
    import jinja2  # noqa: PLC0415 (the broker's image is the SDK's, which has none, and imports this by the way)

    foreign = service.launch == "script"
    command = ["python", "-m", "gym.server.serve", service.entrypoint]
    if foreign:
        command = ["python", STARTER, upstream_name(service), service.entrypoint]
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
        own_environment=bool(service.python) or (foreign and bool(requirements)),
        python=shlex.quote(service.python or "python3"),
        with_sdk=bool(service.python) and not foreign,
        requirements=requirements,
        overrides=overrides,
        packages=" ".join(packages),
        locked=locked,
        portable=portable,
        shared_versions=not foreign,
        command=json.dumps(["gym-with-secrets", *command] if foreign else command),
    )


def render_ignore() -> str:
    return "".join(f"{pattern}\n" for pattern in IGNORED)
