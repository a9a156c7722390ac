"""GPUs: how many this machine has, how many its engine gives to containers, and a stack that asks for more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gym.errors import UserError
from gym.plan.model import Plan

UNKNOWN = 1_000  # of an engine on another machine
CDI = "nvidia.com/gpu="
DEVICES = Path("/dev")


def count_gpus(devices: Path = DEVICES) -> int:
    """Of NVIDIA, which are the ones that Compose can give to a container."""
    return sum(path.name.removeprefix("nvidia").isdecimal() for path in devices.glob("nvidia*"))


def count_engine_gpus(info: Mapping[str, Any], *, here: int, local: bool) -> int:
    """What containers can get: by the names that the engine has found, or by NVIDIA's runtime."""
    named = [one for one in info.get("DiscoveredDevices") or () if str(one.get("ID", "")).startswith(CDI)]
    numbered = [one for one in named if str(one["ID"]).removeprefix(CDI).isdecimal()]
    if numbered:
        return len(numbered)
    if "nvidia" not in (info.get("Runtimes") or {}):
        return 0
    return here if local else UNKNOWN


def check_gpus(plan: Plan, there: int, where: str) -> None:
    """Before anything is built or started."""
    for one in plan.services:
        asked = one.container.gpus
        if not asked:
            continue
        wanted = 1 if asked == "all" else int(asked)
        if there < wanted:
            raise UserError(
                f"{one.name} asks for GPUs (`gpus: {asked}`), and {where} has {there or 'none'}.",
                "Take `gpus` out, or start it where there is one: `gym doctor` says what this machine has.",
            )
