"""Fetches what a server's `datasets:` names, to the place that its `jsonl_fpath` says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gym.config import path_variants
from gym.data.data_sets import HubSource, Listed, path_below_data
from gym.data.file_kinds import check_kept_name
from gym.data.registries.access import Access, read_access
from gym.data.registries.address import RegistryAddress, RegistryName
from gym.data.registries.hub import Hub
from gym.data.registries.mlflow import ModelRegistry
from gym.data.registries.registry_protocol import Received, Registry
from gym.data.registries.transfer import Retries
from gym.errors import UserError
from gym.files import own_root


def open_registry(name: RegistryName, access: Access, retries: Retries | None = None) -> Registry:
    return Hub(access, retries) if name == "huggingface" else ModelRegistry(access, retries)


def fetch(
    listed: Listed,
    destination: Path,
    settings: Mapping[str, Any],
    prefer: RegistryName = "huggingface",
    *,
    environ: Mapping[str, str] = os.environ,
    retries: Retries | None = None,
) -> Received:
    """The rows of a listed data set. Where two registries have it, `prefer` chooses; the other is not tried."""
    sources = listed.data.sources()
    if not sources:
        raise UserError(
            f"{_name(listed)} is not here ({listed.data.jsonl_fpath}), and its entry names no registry",
            "Put the file there, or add `huggingface_identifier: {repo_id: ORG/NAME}` to its entry in `datasets`.",
        )
    source = next((one for one in sources if one.type == prefer), sources[0])
    try:
        if source.artifact_fpath:
            check_kept_name(source.artifact_fpath, destination.name)
        registry = open_registry(source.type, read_access(settings, environ), retries)
        if isinstance(source, HubSource):
            address = RegistryAddress("huggingface", source.repo_id, source.revision or "")
            file, split, config = source.artifact_fpath or "", listed.data.type, source.config_name or ""
            return registry.download(address, destination, file=file, split=split, config=config)
        address = RegistryAddress("gitlab", source.dataset_name, source.version)
        return registry.download(address, destination, file=source.artifact_fpath)
    except UserError as error:
        raise UserError(f"{_name(listed)}: {error.what}", error.hint) from error


def choose_place(listed: Listed, roots: Iterable[Path], cwd: Path, own: Path | None = None) -> Path:
    """What `jsonl_fpath` names, where that folder can be written; else data/SERVER/FILE below `cwd`.

    The package's own servers (`own`) are left alone unless one works there: no rows in an installation.
    """
    own = own_root() if own is None else own
    path = Path(listed.data.jsonl_fpath).expanduser()
    if path.is_absolute():
        return path
    for root in roots:
        for one in path_variants(listed.data.jsonl_fpath):
            place = root / one
            if (root != own or cwd.is_relative_to(own)) and _can_hold(place):
                return place
    return cwd / path_below_data(listed.data.jsonl_fpath)


def _can_hold(place: Path) -> bool:
    """Its folder is there, or the server's folder around it, and may be written."""
    folder = place.parent if place.parent.is_dir() else place.parent.parent
    return folder.is_dir() and os.access(folder, os.W_OK)


def _name(listed: Listed) -> str:
    return f"{listed.instance.name}: {listed.data.name} ({listed.data.type})"
