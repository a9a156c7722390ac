"""What the user asked to be started, as the config module takes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gym.cli.named_images import open_images
from gym.cli.options import parse_counts, split_items
from gym.config import LoadRequest, StackConfig, load_stack, search_roots
from gym.config.assets import split_folder
from gym.errors import UserError


def load_named(
    items: list[str] | None,
    *,
    model: str | None = None,
    files: list[Path] | None = None,
    replicas: list[str] | None = None,
    strict: bool = False,
    share: bool | None = None,
    without_models: bool = False,
    environ: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
) -> StackConfig:
    """The stack of what was typed. `config_paths=[...]` on the command line or in env.yaml names servers too."""
    request = load_request(
        items, model=model, files=files, replicas=replicas, strict=strict, share=share, environ=environ, cwd=cwd
    )
    stack = load_stack(replace(request, without_models=without_models))
    if not stack.instances:
        raise UserError(
            "Nothing is named: give at least one server, or a configuration file with -c.",
            "`gym list` shows the servers; try: gym up simple_weather --model scripted",
        )
    if any(one.fields.get("oracle") is True for one in stack.instances):
        from gym.cli.oracle_answers import add_oracle_answers  # here: it loads what runs cases

        return add_oracle_answers(stack)
    return stack


def load_request(
    items: list[str] | None,
    *,
    model: str | None = None,
    files: list[Path] | None = None,
    replicas: list[str] | None = None,
    strict: bool = False,
    share: bool | None = None,
    environ: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
) -> LoadRequest:
    """What the command line says, as the config module takes it. `cwd`: where it is typed."""
    names, overrides = split_items(items or [])
    cwd = cwd or Path.cwd()
    names, packs = open_images(names, environ)
    named = [split_folder(name, cwd) for name in names]
    folders = [folder for _, found in named for folder in found]
    return LoadRequest(
        names=tuple(name for name, _ in named),
        model=model,
        files=tuple(files or ()),
        overrides=overrides,
        replicas=parse_counts(replicas or [], "--replicas"),
        strict=strict,
        share=share,
        cwd=cwd,
        roots=(*packs, *folders, *search_roots(cwd, environ)),
        environ=dict(environ),
    )
