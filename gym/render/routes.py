"""What the router and the servers read about replicas: the next discovery document, and the router's text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gym.render.traefik import INSIDE, OUTSIDE, traefik_dynamic
from gym.render.wanted_stack import plan_of_wanted
from gym.wire.discovery import Discovery
from gym.wire.stack_names import CONSOLE, PORT
from gym.wire.wanted import Wanted

CONSOLE_URL: Final = f"http://{CONSOLE}:{PORT}"
ENTRY_POINTS: Final[Sequence[str]] = (OUTSIDE, INSIDE)


def next_discovery(found: Discovery, earlier: Discovery | None) -> Discovery:
    """What was found, with a higher generation where it differs from the `earlier` document."""
    changed = earlier is None or _without_generation(earlier) != _without_generation(found)
    generation = (earlier.generation if earlier else 0) + changed
    return found.model_copy(update={"generation": generation})


def router_text(wanted: Wanted, found: Discovery) -> str:
    plan, names = plan_of_wanted(wanted), wanted.router_names
    return traefik_dynamic(plan, found, console=CONSOLE_URL, entry_points=ENTRY_POINTS, names=names)


def _without_generation(found: Discovery) -> Discovery:
    return found.model_copy(update={"generation": 0})
