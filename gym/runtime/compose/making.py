"""The images of a stack, made: those that are missing, as a lock says where there is one, and shown meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

from gym.config import search_roots
from gym.plan.model import Plan
from gym.render.bake import StackImages
from gym.render.compose import ROUTER_IMAGE
from gym.runtime.compose.converge import Converger
from gym.runtime.compose.image_sources import read_image_sources
from gym.runtime.compose.images import plan_images, write_build_files
from gym.runtime.compose.index_settings import write_build_secrets
from gym.runtime.compose.known_images import image_ids
from gym.runtime.compose.server_builds import build_missing, pull_missing
from gym.runtime.compose.stack_lock import (
    Lock,
    check_installed,
    check_lock,
    fetch_locked,
    is_built_from_lock,
    pins_of,
)
from gym.runtime.preparing import status_before
from gym.runtime.protocol import Prepared
from gym.runtime.status import StackStatus


def make_images(to: Converger, prepared: Prepared, cache: Path, lock: Lock | None) -> tuple[str, ...]:
    """Build and pull what is missing; the tags that were built. A lock changes how images are built, not their tags."""
    assert prepared.images is not None, "a stack of containers runs from images"
    plan, images, present = prepared.plan, prepared.images, frozenset(image_ids(to.client))
    if lock:
        images, present = _locked_images(to, plan, images, cache, lock)
    write_build_files(images, cache)
    build_secrets = write_build_secrets(to.layout.build, os.environ)

    def tell(names: tuple[str, ...]) -> None:
        to.on_status(_building(plan, names))

    built = build_missing(images, present, host=to.host, folder=to.layout.build, secrets=build_secrets, on_build=tell)
    if lock:
        check_installed(lock, plan, images.by_instance, built, to.host)
    pull_missing(plan, ROUTER_IMAGE, present, to.host)
    return built


def _locked_images(
    to: Converger, plan: Plan, images: StackImages, cache: Path, lock: Lock
) -> tuple[StackImages, frozenset[str]]:
    """The images as the lock builds them, and those of the engine that need no build."""
    fetch_locked(lock, to.client, to.host)
    present = frozenset(image_ids(to.client))
    missing = any(one.tag not in present for one in images.targets)
    pins = pins_of(lock, to.client, to.host, fetch=missing)
    images = plan_images(plan, read_image_sources(plan, to.layout.build, cache), pins)
    check_lock(lock, to.client, plan, images, data_roots(), pinned=pins is not None)
    if missing and not is_built_from_lock(to.client, images.base_target):
        present -= {images.base}  # it may have another Python
    return images, present


def data_roots() -> tuple[Path, ...]:
    """Paths of data sets are written from where `gym` is typed, or from the checkout that has the server."""
    return search_roots(Path.cwd(), os.environ)


def _building(plan: Plan, names: tuple[str, ...]) -> StackStatus:
    """What `up` shows while images are made: the instances they are for, and every instance while it is their base."""
    base = "base" in names
    detail = "building the base image" if base else "building its image"
    return status_before(plan, "compose", {one.name: detail for one in plan.services if base or one.slug in names})
