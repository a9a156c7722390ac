"""`gym pack`: from a server's name to what goes into its image. Nothing of this machine's own goes along."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gym.cli import console
from gym.cli.live_status import live_status
from gym.cli.planning import plan_stack
from gym.cli.stack_request import load_named
from gym.cli.stack_session import home_here
from gym.config import CatalogEntry, Instance, StackConfig, find_server, is_secret_key, search_roots
from gym.config.aliases import KIND, POLICY_NAMES
from gym.config.assets import unique_paths
from gym.config.image_references import is_reference
from gym.config.nodes import walk
from gym.config.packed import is_outside
from gym.config.yaml_source import read_yaml
from gym.data.data_sets import Listed, list_data_sets
from gym.errors import UserError
from gym.labels import DEFAULT_STACK
from gym.plan import Plan
from gym.render.pack import PackManifest
from gym.runtime.compose import ComposeRuntime
from gym.runtime.compose.layout import Layout
from gym.runtime.compose.packed_images import digest_in_registry, read_pack
from gym.runtime.compose.packing import NEVER, PackContent, build_pack
from gym.wire.server_types import ServerType


class Packing(NamedTuple):
    """What was packed, and what could not come along."""

    digest: str
    content: PackContent
    left_out: tuple[str, ...]


def pack_named(name: str, reference: str) -> Packing:
    if not is_reference(reference):
        raise UserError(f"-t {reference} is not the name of an image with a tag.", f"gym pack {name} -t {name}:1.0")
    roots = search_roots(Path.cwd(), os.environ)
    entry = find_server(name, roots)
    loaded = load_named([name], without_models=True)
    main = _main_instance(entry, loaded)
    content, left_out = _content(entry, loaded, roots)
    home, runtime = home_here(DEFAULT_STACK), ComposeRuntime()
    prepared = runtime.prepare(home, _alone(plan_stack(loaded, DEFAULT_STACK), main), {})
    assert prepared.images is not None
    with live_status("building its image") as on_status:
        runtime.build(home, prepared, on_status)
    services = dict(_services(loaded, content))
    left_out += tuple(f"the digest of {image}, for no registry knows it" for image in _unpinned(services))
    content = content._replace(manifest=content.manifest.model_copy(update={"services": services}))
    build_pack(content, prepared.images.by_instance[main.name], reference, Layout(home.resolve()).build)
    return Packing(read_pack(reference)[1], content, left_out)


def _main_instance(entry: CatalogEntry, loaded: StackConfig) -> Instance:
    """The one that the image runs; several of one folder run the same."""
    found = next((one for one in loaded.instances if one.directory == entry.directory), None)
    if found is None or entry.config is None:
        raise UserError(
            f"{entry.name}: no instance of its configuration runs the folder {entry.directory}.",
            "What is packed is a folder with a configuration; an image is one already.",
        )
    if found.container.image:
        raise UserError(f"{entry.name} is an image already: {found.container.image}.", "gym push IMAGE")
    return found


def _alone(plan: Plan, main: Instance) -> Plan:
    services = tuple(one for one in plan.services if one.name == main.name)
    return plan.model_copy(update={"services": services, "sandbox": None})


def _content(entry: CatalogEntry, loaded: StackConfig, roots: tuple[Path, ...]) -> tuple[PackContent, tuple[str, ...]]:
    assert entry.config is not None
    server = _place(entry.type, entry.implementation)
    along = {_place(one.type, one.implementation): one.directory for one in _others(entry, loaded) if one.directory}
    folders = (entry.directory, *along.values())
    files = dict(_more_configs(loaded, folders, roots))
    _check_secrets([*_configs_in(folders), *files.values()])
    left_out = []
    for one in list_data_sets(loaded):
        path = one.file(roots)
        if path is None or is_outside(one.data.jsonl_fpath):
            left_out.append(_why_left_out(one, path))
        else:
            files[one.data.jsonl_fpath] = path  # where the server's own folder has it there, it is not copied again
    manifest = PackManifest(
        name=entry.name,
        type=entry.type,
        server=server,
        config=f"{server}/{entry.config.relative_to(entry.directory).as_posix()}",
        along=tuple(along),
    )
    return PackContent(manifest, entry.directory, along, files, entry.description, entry.licence), tuple(left_out)


def _services(loaded: StackConfig, content: PackContent) -> Iterator[tuple[str, str]]:
    """What runs beside the instances, by digest where a registry knows one: the image is on this engine by now."""
    folders = {content.server: content.manifest.server, **{path: place for place, path in content.along.items()}}
    for instance in loaded.instances:
        for one in instance.sidecars:
            name = f"{instance.name}.{one.name}"
            if one.build:
                yield name, f"build:{_place_below(folders, Path(one.build), name)}"
            elif one.image:
                digest = digest_in_registry(one.image)
                yield name, f"{one.image}@{digest}" if digest and "@" not in one.image else one.image


def _place_below(folders: Mapping[Path, str], folder: Path, name: str) -> str:
    for path, place in folders.items():
        if folder.is_relative_to(path):
            return f"{place}/{folder.relative_to(path).as_posix()}"
    raise UserError(
        f"{name} is built from {folder}, which lies outside of every folder that is packed.",
        "Move it into the server's folder.",
    )


def _unpinned(services: Mapping[str, str]) -> Iterator[str]:
    return (one for one in services.values() if "@" not in one and not one.startswith("build:"))


def _place(type_: ServerType, implementation: str) -> str:
    return f"servers/{KIND[type_]}/{implementation}"


def _others(entry: CatalogEntry, loaded: StackConfig) -> Iterator[Instance]:
    """Its agents and what they name. The policy is chosen where it is started."""
    for one in loaded.instances:
        if one.directory and one.directory != entry.directory and one.name not in POLICY_NAMES:
            yield one


def _why_left_out(one: Listed, path: Path | None) -> str:
    why = "its path leads out of every folder" if path else "it is not on this disk"
    return f"{one.data.name} ({one.data.type}, {one.data.jsonl_fpath}): {why}"


def _more_configs(
    loaded: StackConfig, folders: tuple[Path, ...], roots: tuple[Path, ...]
) -> Iterator[tuple[str, Path]]:
    """Files that its configuration includes and that are in none of the folders."""
    models = tuple(one.directory for one in loaded.instances if one.name in POLICY_NAMES and one.directory)
    for shown in loaded.files:
        path = unique_paths([Path.cwd() / shown])[0]
        if any(path.is_relative_to(folder) for folder in (*folders, *models)):
            continue
        root = next((one for one in roots if path.is_relative_to(one)), None)
        if root is None:
            raise UserError(f"{shown} is included and lies outside of every folder of servers.", "Move it into one.")
        yield path.relative_to(root).as_posix(), path


def _configs_in(folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in folders:
        found = sorted((*folder.glob("configs/*.y*ml"), *folder.glob("*.y*ml")))
        yield from (path for path in found if path.name not in NEVER)


def _check_secrets(configs: list[Path]) -> None:
    """All who pull an image can read its configuration."""
    for config in configs:
        for path, node in walk(read_yaml(config, str(config))):
            value = node.value
            if path and is_secret_key(str(path[-1])) and isinstance(value, str) and value and "${" not in value:
                raise UserError(
                    f"{config}:{node.line}: `{path[-1]}` is written there, and all who pull the image could read it.",
                    f"Write ${{oc.env:{str(path[-1]).upper()}}}, and set that variable where the image is started.",
                )


def show_packing(reference: str, done: Packing) -> None:
    content = done.content
    for line in done.left_out:
        console.note(f"left out: {line}", style="yellow")
    along = f", with {', '.join(Path(one).name for one in content.along)}" if content.along else ""
    console.note(f"packed {content.manifest.name}{along} as {reference} ({done.digest[:19]})")
    console.note(f"start it: gym up {reference} · hand it on: gym push {reference}")
