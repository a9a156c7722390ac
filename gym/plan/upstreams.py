"""Which instances may be told other addresses of their provider at run time, and where below a home that lies."""

from __future__ import annotations

from typing import Final

from gym.plan.model import Service

FOLDER: Final = "upstreams"  # below the home; in it one folder for each model, by its slug


def takes_upstreams(service: Service) -> bool:
    return service.type == "responses_api_models" and service.launch == "sdk"
