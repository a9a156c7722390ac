"""The broker's configuration: its stack, its provider, what each instance may ask for. Tokens as digests only."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gym.broker.errors import RequestRefused
from gym.errors import UserError
from gym.labels import ENV_SANDBOX_CONFIG
from gym.wire.sandbox import HOST, OPERATOR, Grant, ProviderName, Size, share_key

ENV_FILE: Final = ENV_SANDBOX_CONFIG
Port = Annotated[int, Field(ge=1, le=65535)]


class EgressConfig(BaseModel):
    """`settings.egress`, of the gate of `network: {allow: [...]}`. By default nothing private opens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ports: tuple[Port, ...] = (80, 443)
    """The ports that can be reached outside."""
    private: tuple[Annotated[str, Field(pattern=HOST)], ...] = ()
    """Names or addresses that may lead to this machine or the networks around it, such as a mirror of packages.

    A grant has to name them as well."""
    total: int = Field(default=20_000, ge=1)
    """Connections and questions of one sandbox in its life."""
    max_bytes: Size = 16 << 30
    """Bytes of one sandbox, both ways together."""
    head_bytes: int = Field(default=32 << 10, ge=1 << 10)
    """The longest head of a request, or of a TLS greeting."""
    head_seconds: float = Field(default=15.0, gt=0)
    """How long it may take to come."""
    connect_seconds: float = Field(default=10.0, gt=0)
    """How long a connection outwards may take."""
    idle_seconds: float = Field(default=300.0, gt=0)
    """A connection on which nothing moves for so long is closed."""


class BrokerSettings(BaseModel):
    """`settings` of the broker's file. The defaults suit one machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lease_seconds: float = Field(default=20.0, gt=0)
    """An owner that is silent for so long loses its sandboxes."""
    reap_seconds: float = Field(default=0.5, gt=0)
    """How often the broker looks for leases and lives that ended."""
    creates: int = Field(default=32, ge=1)
    """At most so many are made at once; fewer while the engine is slow."""
    execs: int = Field(default=512, ge=1)
    """At most so many commands run at once."""
    removes: int = Field(default=32, ge=1)
    """At most so many are removed at once."""
    pulls: int = Field(default=3, ge=1)
    """At most so many images are pulled at once."""
    queue: int = Field(default=4096, ge=1)
    """At most so many requests wait; the next one is answered 429."""
    queue_seconds: float = Field(default=300.0, gt=0)
    """How long a request without a deadline waits."""
    slow_create_seconds: float = Field(default=10.0, gt=0)
    """The engine counts as strained where making one takes longer."""
    breaker_failures: int = Field(default=5, ge=1)
    """So many failures in a row, of creates or pings, and the broker asks for nothing more until the engine answers."""
    ping_seconds: float = Field(default=5.0, gt=0)
    """How often the engine is asked whether it answers."""
    stop_seconds: float = Field(default=25.0, gt=0)
    """How long a stopping broker spends on removing."""
    hand_over: bool = False
    """A stopping broker leaves the sandboxes to the next one."""
    warm_total: int = Field(default=64, ge=0)
    """The most ready sandboxes of all kinds; 0: none."""
    warm_window_seconds: float = Field(default=60.0, gt=0)
    """A pool of ready ones is as large as the requests of this time say."""
    warm_idle_seconds: float = Field(default=10.0, gt=0)
    """Ready ones go after so long without a request, or twice the longest pause of that time if that is longer."""
    warm_age_seconds: float = Field(default=1800.0, gt=0)
    """A ready one that is older is replaced."""
    disk_high: float = Field(default=0.85, gt=0, le=1)
    """Above this share of a full disk, images that nothing uses are removed."""
    disk_low: float = Field(default=0.75, gt=0, le=1)
    """Removing images stops at this share."""
    gc_seconds: float = Field(default=60.0, gt=0)
    """How often the disk is looked at."""
    max_output: int = Field(default=64 << 20, ge=1 << 10)
    """The most bytes that one command may ask to have kept, per stream."""
    audit: str = ""
    """A file for the record of what was asked; without it, the log of the process."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The provider's own."""
    egress: EgressConfig = EgressConfig()
    """The gate of `network: {allow: [...]}`, below."""


class InstanceAccess(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    token_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    grant: Grant = Grant()


class BrokerConfig(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    stack: str = Field(min_length=1)
    provider: ProviderName = "auto"
    settings: BrokerSettings = BrokerSettings()
    instances: dict[str, InstanceAccess] = Field(default_factory=dict)
    operator_sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")

    @field_validator("instances")
    @classmethod
    def _check_names(cls, given: dict[str, InstanceAccess]) -> dict[str, InstanceAccess]:
        if OPERATOR in given:
            raise ValueError(f"`{OPERATOR}` is the name of the stack's operator, not of an instance")
        return given


class BrokerCaller(NamedTuple):
    """Who sent a request: an instance with its grant, or the operator of the stack."""

    instance: str
    grant: Grant
    operator: bool = False
    tokens: Mapping[str, str] = {}  # digests of all instances' tokens, to check keys by

    def may_see(self, instance: str) -> bool:
        return self.operator or instance == self.instance

    def may_visit(self, instance: str, sandbox: str, key: str) -> bool:
        """Whether `key` is that of the sandbox, which the instance that owns it gave away."""
        digest = self.tokens.get(instance, "")
        return bool(digest and key) and hmac.compare_digest(key, share_key(digest, sandbox))


def read_config(environ: Mapping[str, str]) -> BrokerConfig:
    named = environ.get(ENV_FILE, "")
    if not named:
        raise UserError(f"{ENV_FILE} is not set: the broker does not know whose sandboxes it makes", "run `gym up`")
    try:
        return BrokerConfig.model_validate(orjson.loads(Path(named).read_bytes()))
    except OSError as error:
        raise UserError(f"{ENV_FILE}={named} cannot be read: {error.strerror}", "run `gym up` again") from None
    except (ValidationError, orjson.JSONDecodeError) as error:
        raise UserError(
            f"{ENV_FILE}={named} is not a configuration of a broker: {error}", "run `gym up` again"
        ) from None


def authenticate(config: BrokerConfig, header: bytes | None) -> BrokerCaller:
    """Compares every digest in constant time, so that the time taken reveals nothing."""
    scheme, _, token = (header or b"").partition(b" ")
    given = sha256(token.strip()).hexdigest() if scheme.lower() == b"bearer" else ""
    tokens = {name: access.token_sha256 for name, access in config.instances.items()}
    found: BrokerCaller | None = None
    if hmac.compare_digest(given, config.operator_sha256 or "-"):
        found = BrokerCaller(OPERATOR, Grant(images=("*",)), operator=True)
    for name, access in config.instances.items():
        if hmac.compare_digest(given, access.token_sha256):
            found = BrokerCaller(name, access.grant, tokens=tokens)
    if found is None:
        raise RequestRefused("no valid bearer token: send `authorization: Bearer $GYM_SANDBOX_TOKEN`", 401)
    return found
