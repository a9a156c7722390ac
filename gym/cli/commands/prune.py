"""`gym prune`: remove images, environments and build files that nothing uses. All of them can be rebuilt."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gym.cli import console
from gym.cli.options import AsJson
from gym.engine import connect, find_engine
from gym.errors import InfraError, UserError
from gym.runtime.cache_leftovers import Leftover, find_cache_leftovers, remove_cache_leftover
from gym.runtime.compose.image_leftovers import find_image_leftovers, remove_image
from gym.runtime.compose.volume_leftovers import VOLUME, find_volume_leftovers, remove_volume
from gym.runtime.user_state import forget_lost_homes, no_other_command
from gym.venvs import cache_dir

if TYPE_CHECKING:
    import docker

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would go, and remove nothing.")]
Everything = Annotated[
    bool, typer.Option("--all", help="All that nothing uses now: also the latest images, and what was used this week.")
]


def command(dry_run: DryRun = False, everything: Everything = False, as_json: AsJson = False) -> int:
    """Remove older images, and environments and build files that were not used for a week.

    What a container, a local stack or a stack's folder uses stays. What is removed is rebuilt when needed.
    """
    cache = cache_dir(os.environ)
    with ExitStack() as stack:
        if not dry_run and not stack.enter_context(no_other_command()):
            raise UserError("Another gym command is starting or changing a stack.", "Wait for its end, then try again.")
        engine = find_engine()
        client = None if isinstance(engine, InfraError) else stack.enter_context(connect(engine.host))
        with console.busy("looking for what nothing uses"):
            found = find_image_leftovers(client, everything=everything) if client else []
            found += find_volume_leftovers(client) if client and everything else []
            found += find_cache_leftovers(cache, time.time(), everything=everything)
        kept: list[Leftover] = []
        if not dry_run:
            with console.busy(f"removing {len(found)} things"):
                kept = [one for one in found if not _remove(client, cache, one)]
                forget_lost_homes()
    gone = [one for one in found if one not in kept]
    if as_json:
        console.show_json([one.model_dump(mode="json") | {"removed": not dry_run and one in gone} for one in found])
    else:
        _show(found, gone, dry_run=dry_run)
    if isinstance(engine, InfraError):
        console.note(f"Images were not looked for: {engine.what}")
    return 0


def _remove(client: docker.DockerClient | None, cache: Path, one: Leftover) -> bool:
    """False for what has come into use meanwhile, or is another user's."""
    if one.path is None:
        remove = remove_volume if one.kind == VOLUME else remove_image
        return client is not None and remove(client, one)
    try:
        remove_cache_leftover(cache, one)
    except OSError as error:
        console.note(f"{one.path} stays: {error.strerror}", style="yellow")
        return False
    return True


def _show(found: list[Leftover], gone: list[Leftover], *, dry_run: bool) -> None:
    if not found:
        console.note("Nothing is left over: gym prune --all also takes the latest images and what was used this week.")
        return
    now = time.time()
    if dry_run:
        rows = [(one.kind, one.name, format_bytes(one.bytes), f"{_days(now - one.used)} ago") for one in found]
        console.show(console.make_table(("KIND", "NAME", "SIZE", "USED"), rows, right=("SIZE", "USED")))
        console.show()
    for kind in dict.fromkeys(one.kind for one in gone):
        some = [one for one in gone if one.kind == kind]
        shared = ", less what they share" if kind == "image" else ""
        console.show(f"{len(some):>5} x {kind}: {format_bytes(sum(one.bytes for one in some))}{shared}")
    if dry_run:
        console.note("\nNothing was removed; without --dry-run all of this is.")
    elif len(gone) < len(found):
        console.note(f"{len(found) - len(gone)} came into use meanwhile and stay.")


def format_bytes(count: int) -> str:
    """999 -> "999 B", 1_500_000 -> "1.5 MB"."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _days(seconds: float) -> str:
    return f"{seconds / 86400:.0f} days" if seconds >= 2 * 86400 else console.format_duration(max(0.0, seconds))
