"""The host's package settings (index, proxies, certificates) as two files for a build to mount; no layer keeps them."""

from __future__ import annotations

import configparser
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gym.files import write_atomically

# What pip calls an option, and by which names pip and uv read it from the environment.
OPTIONS: Final = {
    "index-url": ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
    "extra-index-url": ("PIP_EXTRA_INDEX_URL", "UV_INDEX"),
    "find-links": ("PIP_FIND_LINKS", "UV_FIND_LINKS"),
    "trusted-host": ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST"),
    "timeout": ("PIP_DEFAULT_TIMEOUT", "UV_HTTP_TIMEOUT"),
}
PROXIES: Final = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
)
UV_TOO: Final = (
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_INSECURE_HOST",
    "UV_HTTP_TIMEOUT",
    "UV_INDEX_STRATEGY",
)
BUNDLES: Final = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def write_build_secrets(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Build secret ids and their files, private to this user, without what only this host can read."""
    settings = index_settings(environ, _pip_config(environ))
    path = folder / "index"
    write_atomically(path, "".join(f"{key}={shlex.quote(value)}\n" for key, value in sorted(settings.items())))
    bundle = next((environ[name] for name in BUNDLES if environ.get(name) and Path(environ[name]).is_file()), "")
    return {"index": str(path), **({"ca": bundle} if bundle else {})}


def index_settings(environ: Mapping[str, str], pip: Mapping[str, str]) -> dict[str, str]:
    """Variables for pip and uv inside the build."""
    found = {name: environ[name] for name in (*PROXIES, *UV_TOO) if environ.get(name)}
    for option, (for_pip, for_uv) in OPTIONS.items():
        value = " ".join(word for word in (environ.get(for_pip) or pip.get(option, "")).split() if not _is_local(word))
        if value:
            found[for_pip] = value
            found.setdefault(for_uv, value.replace(" ", ",") if option == "find-links" else value)
    return found


def _is_local(word: str) -> bool:
    return word.startswith(("file:", "/", "./", "../", "~"))


def _pip_config(environ: Mapping[str, str]) -> dict[str, str]:
    """`[global]` and `[install]` of pip's files, the later ones over the earlier."""
    home = Path(environ.get("HOME") or Path.home())
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/pip.conf"), Path("/etc/xdg/pip/pip.conf"), home / ".pip/pip.conf", config / "pip/pip.conf"]
    files.append(home / "Library/Application Support/pip/pip.conf")
    if named := environ.get("PIP_CONFIG_FILE"):
        files = [Path(named)] if named != os.devnull else []
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(files, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}  # pip itself will complain about it, in better words
    return {
        key: value
        for section in ("global", "install")
        if parser.has_section(section)
        for key, value in parser.items(section)
    }
