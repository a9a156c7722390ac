"""Servers that came out of a packed image: which image stands for a folder, and what its configuration asks for.

A note beside the unpacked folders says so. Their author may be anybody, so what reads this machine is found here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
import yaml

from gym.config.aliases import SERVER_TYPES
from gym.config.instance_keys import CONFIG_PATHS

if TYPE_CHECKING:
    from gym.config.model import SidecarSpec

NOTE: Final = ".gym-pack.json"
_VARIABLE: Final = re.compile(r"\$\{\s*(?:(?:oc\.)?env\s*:\s*(?P<asked>[^},]*)|(?P<bare>[^}:$]*)\})")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_OF_MACHINE: Final = {
    "gpus": "devices of this machine",
    "placement": "labels of nodes",
    "build": "an image that is built from files of this machine",
    "secrets": "secrets of this machine",
    "sandbox": "sandboxes, of images that this machine may have",
}


@dataclass(frozen=True)
class Packed:
    """What is known of an unpacked image; written by us, never by who packed it."""

    image: str  # the name that this engine has it under, by content
    digest: str  # of the image: what a rollout's provenance names
    reference: str  # as it was asked for
    config: str  # the configuration that starts it, relative to the root
    server: str  # the folder that the image runs, relative to the root
    gym: str = ""  # the version that packed it
    services: dict[str, str] = field(default_factory=dict)  # "shop.redis" -> "redis:7@sha256:…"
    trusted: bool = False


def packed_root(directory: Path) -> Path:
    """The root of `servers/KIND/NAME`."""
    return directory.parent.parent.parent


def read_packed(root: Path) -> Packed | None:
    """None where this is not a folder of an unpacked image."""
    try:
        return Packed(**orjson.loads((root / NOTE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def pack_of(directory: Path | None) -> Path | None:
    """The root of the unpacked image that a folder came with."""
    return packed_root(directory) if directory and read_packed(packed_root(directory)) else None


def packed_at(directory: Path) -> Packed | None:
    """The image that runs instead of this folder; agents that came along are folders like any other."""
    packed = read_packed(packed_root(directory))
    return packed if packed and packed_root(directory) / packed.server == directory else None


def pin_services(specs: tuple[SidecarSpec, ...], instance: str, directory: Path | None) -> tuple[SidecarSpec, ...]:
    """What was packed runs, whatever is behind the name of its image by now; another name is another image."""
    packed = read_packed(packed_root(directory)) if directory else None
    return tuple(_pin(one, packed.services.get(f"{instance}.{one.name}", "")) for one in specs) if packed else specs


def _pin(spec: SidecarSpec, packed: str) -> SidecarSpec:
    image, _, digest = packed.partition("@")
    if not image or image != spec.image or not _DIGEST.fullmatch(digest):
        return spec
    head, slash, last = image.rpartition("/")
    return spec.model_copy(update={"image": f"{head}{slash}{last.partition(':')[0]}@{digest}"})


def pack_findings(texts: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[str]:
    """What configuration files would read, or set for others, on the machine that starts them."""
    for name, text in sorted(texts.items()):
        for variable in dict.fromkeys(_variables(text, environ)):
            yield f"{name}: reads the variable {variable} of this machine"
        try:
            tree = yaml.safe_load(text)
        except yaml.YAMLError:
            yield f"{name}: cannot be read"
            continue
        for key, value in tree.items() if isinstance(tree, dict) else ():
            yield from (f"{name}: {one}" for one in _top_findings(str(key), value))
        yield from (f"{name}: {one}" for one in _deep_findings(tree))


def _variables(text: str, environ: Mapping[str, str]) -> Iterator[str]:
    for found in _VARIABLE.finditer(text):
        bare = (found["bare"] or "").strip()
        if found["asked"] is not None:
            yield found["asked"].strip().strip("\"'")
        elif bare in environ:
            yield bare


def _top_findings(key: str, value: Any) -> Iterator[str]:
    types = [one for one in SERVER_TYPES if isinstance(value, dict) and one in value]
    if "responses_api_models" in types:
        yield f"{key}: is a model server: what it is asked goes where this file says"
    elif not types and key != CONFIG_PATHS:
        yield f"{key}: is a setting of the whole stack"


def _deep_findings(tree: Any) -> Iterator[str]:
    if isinstance(tree, list):
        for one in tree:
            yield from _deep_findings(one)
    for key, value in tree.items() if isinstance(tree, dict) else ():
        if key == "services":
            yield from _service_findings(value)
            continue
        if key in _OF_MACHINE and not (isinstance(value, bool) or value in (None, [], "", {})):
            yield f"{key}: {_OF_MACHINE[key]}"
        if key in (CONFIG_PATHS, "jsonl_fpath"):
            paths = value if isinstance(value, list) else [value]
            yield from (f"{key}: {one} is a file of this machine" for one in paths if is_outside(str(one)))
        yield from _deep_findings(value)


def _service_findings(services: Any) -> Iterator[str]:
    """Their containers have rights that a packed server has not: they begin as root."""
    for name, spec in services.items() if isinstance(services, dict) else ():
        found = spec if isinstance(spec, dict) else {}
        if not (found.get("image") or found.get("build")):
            continue
        what = f"an image built from {found['build']}" if found.get("build") else f"the image {found.get('image')}"
        yield f"services: {name} runs {what} beside it"
        for volume in found.get("volumes") or ():
            if is_outside(str(volume)):
                yield f"services: {name} gets {str(volume).partition(':')[0]}, which is of this machine"


def is_outside(path: str) -> bool:
    """Absolute, a home's, or climbing."""
    return path.startswith(("/", "~")) or ".." in Path(path).parts
