"""Credentials for a registry: what `docker login` stored, in the form that the engine takes."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any, Final

import orjson

from gym.broker.providers.docker.image_name import HUB, ImageReference
from gym.errors import ProgramFailed
from gym.programs import run_program

HUB_KEY: Final = "https://index.docker.io/v1/"
HELPER_SECONDS: Final = 20.0


def registry_auth(image: ImageReference, folder: Path | None = None) -> str | None:
    """The header X-Registry-Auth for this image; None without a login. May run a credential helper, which is slow."""
    found = _find(image.domain, folder or _config_folder())
    return None if found is None else _encoded(found)


def all_auths(folder: Path | None = None) -> str | None:
    """The header X-Registry-Config for a build, which may begin from images of several registries."""
    config = _read(folder or _config_folder())
    auths = config.get("auths")
    known = {name: _decode(entry) for name, entry in auths.items()} if isinstance(auths, dict) else {}
    plain = {name: entry for name, entry in known.items() if entry}
    return _encoded(plain) if plain else None


def _find(domain: str, folder: Path) -> dict[str, str] | None:
    config = _read(folder)
    keys = (
        (HUB_KEY, "index.docker.io", HUB) if domain == HUB else (domain, f"https://{domain}", f"https://{domain}/v2/")
    )
    helpers = config.get("credHelpers")
    store = config.get("credsStore")
    for key in keys:
        program = helpers.get(key, store) if isinstance(helpers, dict) else store
        if program and (entry := _ask_helper(str(program), key)):
            return entry
    auths = config.get("auths")
    entries = [_decode(auths[key]) for key in keys if key in auths] if isinstance(auths, dict) else []
    return next((entry for entry in entries if entry), None)


def _ask_helper(program: str, key: str) -> dict[str, str] | None:
    try:
        credentials = orjson.loads(
            run_program((f"docker-credential-{program}", "get"), input=key, timeout=HELPER_SECONDS)
        )
    except (ProgramFailed, orjson.JSONDecodeError):
        return None  # no login for this registry: the registry answers an anonymous request
    if credentials.get("Username") == "<token>":
        return {"identitytoken": str(credentials.get("Secret", "")), "serveraddress": key}
    return {
        "username": str(credentials.get("Username", "")),
        "password": str(credentials.get("Secret", "")),
        "serveraddress": key,
    }


def _decode(entry: Any) -> dict[str, str] | None:
    if not isinstance(entry, dict):
        return None
    if entry.get("identitytoken"):
        return {"identitytoken": str(entry["identitytoken"])}
    try:
        name, colon, password = base64.b64decode(str(entry.get("auth", ""))).decode().partition(":")
    except ValueError:
        return None
    return {"username": name, "password": password.rstrip("\0")} if colon else None


def _encoded(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(value)).decode()


def _config_folder() -> Path:
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")


def _read(folder: Path) -> dict[str, Any]:
    try:
        tree = orjson.loads((folder / "config.json").read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return tree if isinstance(tree, dict) else {}
