"""What a server process gets at its start: its own fields, the servers it may call, where to listen."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gym import labels
from gym.errors import ConfigError, Problem, UserError
from gym.server.errors import validation_message
from gym.wire.telemetry import KEY as TELEMETRY
from gym.wire.telemetry import Telemetry, read_telemetry

C = TypeVar("C", bound="ServerConfig")
SECRET = "secret://"
TYPES = ("responses_api_models", "resources_servers", "responses_api_agents")


class Reference(BaseModel):
    """`{type, name}`: another instance of the stack."""

    model_config = ConfigDict(frozen=True)
    type: str = ""
    name: str


class ServerConfig(BaseModel):
    """The fields every instance may have. Subclass it to add a server's own; an undeclared key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    """The instance's name; `gym up` fills it in."""
    host: str | None = None
    """Where it listens; `gym up` fills it in."""
    port: int | str | None = None
    """Where it listens; `gym up` fills it in."""
    entrypoint: str = "app.py"
    """The file of the server, relative to its folder."""
    num_workers: int | None = None
    """NeMo Gym's word for `replicas`; read where `replicas` is not there."""
    domain: str | None = None
    """Of an environment, for `gym list`: `math`, `coding`, `agent`, …."""
    kind: Literal["rule", "judge", "sandbox", "network", "example"] | None = None
    """Of an environment, for `gym list`: how its verifier decides."""
    verified: bool | None = None
    """Whether it was used in training, as NeMo Gym's configurations say it."""
    verified_url: str | None = None
    """Where that is shown."""
    description: str | None = None
    """One line for `gym list`."""
    value: str | None = None
    """What a policy learns of it, as NeMo Gym's configurations say it."""
    datasets: list[dict[str, Any]] = Field(default_factory=list)
    """Its data sets, as docs/data.md describes them."""


@dataclass(frozen=True)
class Settings:
    """The environment of a server process, read once."""

    name: str = "server"
    fields: Mapping[str, Any] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)
    discovery: str = ""
    listen: str = "127.0.0.1:0"
    replica: str = ""
    hosts: frozenset[str] = frozenset()  # names with a dot by which it may be asked, where others can reach it
    drain_seconds: float = 30.0
    blocked_seconds: float = 60.0  # a server whose event loop is blocked for longer ends; 0: never
    upstreams: str = ""  # folder from which a model reads other addresses of its provider at run time
    sandbox_url: str = ""  # of the broker; "" for an instance that holds no grant
    sandbox_token: str = field(default="", repr=False)
    peer_token: str = field(default="", repr=False)  # what callers have to show; "": none
    telemetry: Telemetry = Telemetry()  # whether it reports spans
    instances: int = 1  # that live in its process

    def sandbox_access(self) -> tuple[str, str]:
        """URL and token of the sandbox broker."""
        if not (self.sandbox_url and self.sandbox_token):
            raise UserError(
                f"{self.name} asks for sandboxes, and its configuration grants it none.",
                f"Add `sandbox:` to {self.name}'s config (`sandbox: {{images: [python:3.13-slim]}}`), then gym up.",
            )
        return self.sandbox_url, self.sandbox_token


def read_settings(environ: Mapping[str, str]) -> Settings:
    """A process started by hand has none of the variables: it gets the defaults."""
    document = _read_document(environ)
    name = environ.get(labels.ENV_INSTANCE, "") or "server"
    if document and name not in document:
        raise UserError(f"{labels.ENV_INSTANCE}={name} is not an instance of {labels.ENV_CONFIG}")
    folder = Path(environ.get(labels.ENV_SECRETS_DIR, "/run/secrets"))
    resolved = _resolve_secrets(document, folder)
    return Settings(
        name=name,
        fields=_own_fields(resolved.get(name)),
        document=resolved,
        discovery=environ.get(labels.ENV_DISCOVERY, ""),
        listen=environ.get(labels.ENV_LISTEN, "127.0.0.1:0"),
        replica=environ.get(labels.ENV_REPLICA, ""),
        hosts=_hosts(environ.get(labels.ENV_HOSTS, ""), document),
        drain_seconds=_seconds(labels.ENV_DRAIN, environ.get(labels.ENV_DRAIN, "30")),
        blocked_seconds=_seconds(labels.ENV_BLOCKED, environ.get(labels.ENV_BLOCKED, "60")),
        upstreams=environ.get(labels.ENV_UPSTREAMS, ""),
        sandbox_url=environ.get(labels.ENV_SANDBOX_URL, ""),
        sandbox_token=_resolve_secrets(environ.get(labels.ENV_SANDBOX_TOKEN, ""), folder),
        peer_token=environ.get(labels.ENV_PEER_TOKEN, ""),
        telemetry=read_telemetry(document.get(TELEMETRY), environ),
    )


def _hosts(listed: str, document: Mapping[str, Any]) -> frozenset[str]:
    """The hosts of the environment variable, and those by which its peers call it."""
    configured = (str(_own_fields(block).get("host") or "") for block in document.values())
    return frozenset(one.strip().lower() for one in (*listed.split(","), *configured) if one.strip())


def addresses(document: Mapping[str, Any]) -> dict[str, str]:
    """`{instance: http://host:port}` of every instance in a document that says where it listens."""
    found = {}
    for name, block in document.items():
        fields = _own_fields(block)
        if fields.get("host") and fields.get("port"):
            found[name] = f"http://{fields['host']}:{fields['port']}"
    return found


def parse_config(kind: type[C], name: str, fields: Mapping[str, Any]) -> C:
    try:
        return kind.model_validate({**fields, "name": name})
    except ValidationError as error:
        raise ConfigError(_explain(error, kind, name)) from None


def _explain(error: ValidationError, kind: type[ServerConfig], name: str) -> list[Problem]:
    known = sorted(kind.model_fields)
    problems = []
    for one in error.errors():
        key = ".".join(str(part) for part in one["loc"])
        if one["type"] != "extra_forbidden":
            problems.append(Problem(what=f"{one['msg']}{_found(one['type'], key, one['input'])}", key=f"{name}: {key}"))
            continue
        near = difflib.get_close_matches(key, known, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it knows: {', '.join(known)}"
        problems.append(Problem(what="no such field", key=f"{name}: {key}", hint=hint))
    return problems or [Problem(what=validation_message(error), key=name)]


def _found(kind: str, key: str, value: Any) -> str:
    """What stood there, unless it is the whole block around it or may be a secret: this text ends in a log."""
    if kind == "missing":
        return ""
    secret = any(word in key.lower() for word in ("key", "token", "secret", "password", "header"))
    return f" (found {labels.REDACTED if secret else repr(value)})"


def _read_document(environ: Mapping[str, str]) -> dict[str, Any]:
    text, source = environ.get(labels.ENV_CONFIG, ""), labels.ENV_CONFIG
    if not text and (path := environ.get(labels.ENV_CONFIG_FILE)):
        text, source = _read_file(Path(path)), f"{labels.ENV_CONFIG_FILE}={path}"
    if not text:
        return {}
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        parsed = _parse_yaml(text, source)
    if not isinstance(parsed, dict):
        raise UserError(f"{source} holds a {type(parsed).__name__}, not a mapping", "write {instance: {type: {…}}}")
    return parsed


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{labels.ENV_CONFIG_FILE}={path} cannot be read: {error}", "start it with `gym up`") from None


def _parse_yaml(text: str, source: str) -> Any:
    import yaml  # noqa: PLC0415  (2 MB that a server started by us never needs)

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{source} is neither JSON nor YAML: {error}", "start the server with `gym up`") from None


def _seconds(variable: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise UserError(f"{variable}={text} is not a number of seconds", f"set {variable}=30")
    return seconds


def _own_fields(block: Any) -> dict[str, Any]:
    """`{type: {implementation: fields}}` -> fields."""
    for server_type in TYPES:
        by_implementation = block.get(server_type) if isinstance(block, dict) else None
        if isinstance(by_implementation, dict) and by_implementation:
            fields = next(iter(by_implementation.values()))
            return dict(fields) if isinstance(fields, dict) else {}
    return {}


def _resolve_secrets(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {key: _resolve_secrets(one, folder) for key, one in value.items()}
    if isinstance(value, list):
        return [_resolve_secrets(one, folder) for one in value]
    if isinstance(value, str) and value.startswith(SECRET):
        path = folder / value.removeprefix(SECRET)
        try:
            return path.read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            raise UserError(f"the secret {path.name} cannot be read: {error.strerror} ({path})") from None
    return value
