"""The console's settings, read at its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gym import labels
from gym.errors import UserError


@dataclass(frozen=True)
class ConsoleSettings:
    discovery: str  # path or URL
    config: Path | None = None
    listen: str = "127.0.0.1:0"
    drain_seconds: float = 5.0
    token: str = field(default="", repr=False)
    wanted: Path | None = None  # with `routes`: this console keeps the stack's routes
    routes: Path | None = None
    upstreams: Path | None = None  # with a folder for each model
    notes: Path | None = None  # what the runtime and the broker tell
    logs: Path | None = None
    results: Path | None = None  # with collected rollouts
    catalog: Path | None = None  # with copies of what there is to read of environments


def read_settings(environ: Mapping[str, str]) -> ConsoleSettings:
    discovery = environ.get(labels.ENV_DISCOVERY, "")
    if not discovery:
        raise UserError(
            f"{labels.ENV_DISCOVERY} is not set: the console does not know which stack to show",
            "`gym up NAMES` starts a console beside the stack",
        )
    config = environ.get(labels.ENV_CONSOLE, "")
    return ConsoleSettings(
        discovery=discovery,
        config=Path(config) if config else None,
        listen=environ.get(labels.ENV_LISTEN, "127.0.0.1:0"),
        drain_seconds=float(environ.get(labels.ENV_DRAIN, "5")),
        token=_read_token(environ),
        wanted=_path(environ, labels.ENV_WANTED),
        routes=_path(environ, labels.ENV_ROUTES),
        upstreams=_path(environ, labels.ENV_UPSTREAMS),
        notes=_path(environ, labels.ENV_NOTES),
        logs=_path(environ, labels.ENV_LOGS),
        results=_path(environ, labels.ENV_RESULTS),
        catalog=_path(environ, labels.ENV_CATALOG),
    )


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    return Path(environ[name]) if environ.get(name) else None


def _read_token(environ: Mapping[str, str]) -> str:
    path = environ.get(labels.ENV_TOKEN_FILE, "")
    if not path:
        return environ.get(labels.ENV_TOKEN, "").strip()
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UserError(f"the token cannot be read from {path}: {error.strerror}", "gym up --token-file FILE") from None
    if not token:
        raise UserError(f"the token file {path} is empty", "write a long random word into it: openssl rand -hex 24")
    return token
