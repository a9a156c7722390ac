"""The images of a stack, and one document for `docker buildx bake`, which builds them all at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import orjson

from gym.plan.model import Value


class BuildTarget(Value):
    """One image: what it is called in the build's output, from where, and as what it is tagged."""

    name: str
    context: str
    dockerfile: str  # a path; its `.dockerignore` lies beside it
    tag: str
    args: dict[str, str] = {}
    contexts: dict[str, str] = {}  # more folders to copy from, by name
    labels: dict[str, str] = {}


class StackImages(NamedTuple):
    base: str
    by_instance: Mapping[str, str]
    base_target: BuildTarget
    targets: tuple[BuildTarget, ...]  # every server image that we build, whether it exists or not
    texts: Mapping[Path, str] = {}  # files that the builds of servers read
    base_files: Mapping[str, Path] = {}  # what the context of the base is copied from, by its name there


def render_bake(targets: Iterable[BuildTarget], secrets: Mapping[str, str]) -> str:
    """`secrets` maps the ids of build secrets to the files that hold them."""
    mounted = [f"id={name},src={path}" for name, path in sorted(secrets.items())]
    document = {
        "group": {"default": {"targets": [one.name for one in targets]}},
        "target": {one.name: _target(one, mounted) for one in targets},
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _target(target: BuildTarget, secrets: list[str]) -> dict[str, object]:
    fields: dict[str, object] = {
        "context": target.context,
        "dockerfile": target.dockerfile,
        "tags": [target.tag],
        "args": target.args,
        "contexts": target.contexts,
        "labels": target.labels,
        "secret": secrets,
    }
    return {key: value for key, value in fields.items() if value}
