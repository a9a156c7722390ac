"""Who is there, for everybody who asks: the discovery document and the router's dynamic file, each replaced whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from gym.files import write_atomically
from gym.render.traefik import INSIDE, OUTSIDE, traefik_dynamic
from gym.render.wanted import plan_of_wanted
from gym.wire.discovery import Discovery
from gym.wire.stack_names import CONSOLE, PORT
from gym.wire.wanted import Wanted

SHARED: Final = 0o644
CONSOLE_URL: Final = f"http://{CONSOLE}:{PORT}"
ENTRY_POINTS: Final[Sequence[str]] = (OUTSIDE, INSIDE)


def write_routes(discovery: Path, routes: Path, wanted: Wanted, found: Discovery) -> bool:
    """True when something is another than before; then the generation is a higher one. Cut off between the two files,
    the next call brings the second."""
    earlier = read_discovery(discovery)
    changed = earlier is None or _timeless(earlier) != _timeless(found)
    generation = (earlier.generation if earlier else 0) + changed
    current = found.model_copy(update={"generation": generation})
    wrote = write_atomically(discovery, current.model_dump_json(), mode=SHARED)
    plan, names = plan_of_wanted(wanted), wanted.router_names
    text = traefik_dynamic(plan, current, console=CONSOLE_URL, entry_points=ENTRY_POINTS, names=names)
    return write_atomically(routes, text, mode=SHARED) or wrote


def read_discovery(path: Path) -> Discovery | None:
    try:
        return Discovery.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _timeless(found: Discovery) -> Discovery:
    return found.model_copy(update={"generation": 0})
