"""An address, as trainers write it down."""

from __future__ import annotations

from dataclasses import dataclass

HEAD_SERVER_KEY_NAME = "head_server"


@dataclass
class BaseServerConfig:
    host: str
    port: int
    num_workers: int | None = None
