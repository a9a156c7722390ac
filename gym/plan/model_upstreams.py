"""Which instances may get other addresses of their provider at run time, and in which folder below a home."""

from __future__ import annotations

from typing import Final

from gym.plan.model import Service
from gym.wire.stack_names import UPSTREAM_FOLDER

FOLDER: Final = UPSTREAM_FOLDER


def takes_upstreams(service: Service) -> bool:
    return service.type == "responses_api_models" and service.launch == "sdk"
