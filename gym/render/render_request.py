"""What `gym render` asks of an engine beyond this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gym.plan.model import Plan


class RenderRequest(NamedTuple):
    plan: Plan
    secrets: Mapping[str, str]
    registry: str = ""  # the prefix below which its nodes find images; "" where none was named
