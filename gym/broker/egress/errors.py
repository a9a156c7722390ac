"""Why the gate does not let something through."""

from __future__ import annotations


class EgressDenied(Exception):
    """`gateway`: it was granted, but the other side could not be reached."""

    def __init__(self, why: str, *, gateway: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.gateway = gateway
