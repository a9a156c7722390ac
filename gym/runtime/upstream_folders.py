"""The folders in which the console gives models other addresses of their providers; they live as long as the stack."""

from __future__ import annotations

import shutil
from pathlib import Path

from gym.plan.model import Plan
from gym.plan.model_upstreams import FOLDER, takes_upstreams


def prepare_upstreams(home: Path, plan: Plan, *, mode: int = 0o700) -> None:
    """`mode` is wider where the console is another user; no other user can enter the home."""
    slugs = [one.slug for one in plan.services if takes_upstreams(one)]
    for folder in (home / FOLDER, *(home / FOLDER / slug for slug in slugs)):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)


def forget_upstreams(home: Path) -> None:
    """A key may be in there."""
    shutil.rmtree(home / FOLDER, ignore_errors=True)
