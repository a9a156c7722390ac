"""Which instances may get other addresses of their provider at run time, and in which folder below a home."""

from __future__ import annotations

from typing import Final

from gym.plan.model import Service

FOLDER: Final = "upstreams"  # below the home; in it one folder for each model, by its slug


def takes_upstreams(service: Service) -> bool:
    return service.type == "responses_api_models" and service.launch == "sdk"
