"""An environment as one image: what its label says, its Dockerfile, and whether another machine can run it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import ValidationError

from gym import __version__, labels
from gym.errors import UserError
from gym.plan.model import Value
from gym.wire.server_types import ServerType

FOLDER: Final = "/opt/gym/pack"  # of the image: a root with `servers/KIND/NAME`
STAGE: Final = "pack"  # the same in the build context
TITLE: Final = "org.opencontainers.image.title"
DESCRIPTION: Final = "org.opencontainers.image.description"
LICENCES: Final = "org.opencontainers.image.licenses"
FORMAT: Final = 1
PLACE: Final = re.compile(r"servers/[a-z]+/[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)*")


class PackManifest(Value):
    """The label of a packed environment. Paths are relative to its folder."""

    format: Literal["gym-pack"] = "gym-pack"
    version: int = FORMAT
    gym: str = __version__
    name: str
    type: ServerType
    server: str  # the folder that the image runs
    config: str  # the configuration that starts it
    along: tuple[str, ...] = ()  # folders of agents and others that it names, built where it is started
    services: dict[str, str] = {}  # beside them: "shop.redis" -> "redis:7@sha256:…", or "build:" and a folder


def pack_labels(manifest: PackManifest, *, description: str, licence: str) -> dict[str, str]:
    found = {TITLE: manifest.name, DESCRIPTION: description, LICENCES: licence}
    return {**{key: value for key, value in found.items() if value}, labels.PACK: manifest.model_dump_json()}


def render_pack(image: str) -> str:
    """On the server's own image, which has the code and what it requires: a folder more."""
    return f"FROM {image}\nCOPY --chown=0:0 {STAGE}/ {FOLDER}/\n"


def read_manifest(reference: str, config: Mapping[str, Any], platform: str, engine: str) -> PackManifest:
    """Of an image's configuration; UserError where this gym, or this engine, cannot run it."""
    text = (config.get("Labels") or {}).get(labels.PACK)
    if not text:
        raise UserError(
            f"{reference} is an image, but no packed environment: it has no label `{labels.PACK}`.",
            "Make one: gym pack NAME -t IMAGE. Any other image runs as a server with `image:` in a configuration.",
        )
    manifest = _parse(reference, str(text))
    if series(manifest.gym) != series(__version__):
        raise UserError(
            f"{reference} was packed by compose-gym {manifest.gym}, and this is {__version__}.",
            f"Use that one (pip install 'compose-gym[cli]=={manifest.gym}'), or pack it again with this one.",
        )
    if platform != engine:
        raise UserError(
            f"{reference} is for {platform}, and this engine runs {engine}.",
            f"Pack it on a machine of {engine}, or start it on one of {platform}.",
        )
    if config.get("Volumes"):
        raise UserError(
            f"{reference} declares volumes ({', '.join(config['Volumes'])}), which a packed server must not.",
            "Take VOLUME out of its Dockerfile and pack it again; a server writes to /tmp.",
        )
    return manifest


def series(version: str) -> tuple[str, ...]:
    """Versions of one series understand one another: 0.1.2 and 0.1.9, 1.2 and 1.5."""
    parts = version.split(".")
    return tuple(parts[:2] if parts[0] == "0" else parts[:1])


def _parse(reference: str, text: str) -> PackManifest:
    hint = "Ask who packed it to do so again, or use another one."
    try:
        manifest = PackManifest.model_validate_json(text)
    except ValidationError as error:
        why = f"{'.'.join(map(str, error.errors()[0]['loc']))}: {error.errors()[0]['msg']}"
        raise UserError(f"{reference}: its label `{labels.PACK}` cannot be read: {why}", hint) from None
    if manifest.version != FORMAT:
        raise UserError(
            f"{reference} has format {manifest.version} of packed environments; this gym reads {FORMAT}.",
            f"Use the gym that packed it: pip install 'compose-gym[cli]=={manifest.gym}'",
        )
    for path in (manifest.server, manifest.config, *manifest.along):
        if not PLACE.fullmatch(path) or ".." in path.split("/"):
            raise UserError(f"{reference}: its label `{labels.PACK}` names {path!r}, which is not such a place.", hint)
    return manifest
