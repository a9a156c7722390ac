"""What the operator of a stack says of an egress gate, `sandbox_settings.egress`. By default nothing private opens."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gym.wire.sandbox import HOST, Size

Port = Annotated[int, Field(ge=1, le=65535)]


class EgressConfig(BaseModel):
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
