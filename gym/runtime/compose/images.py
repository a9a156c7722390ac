"""Images of a plan, by content: a tag names what went in (base, Dockerfile, files), so an unchanged server builds
nothing. `plan_images` is pure; `write_build_files` writes what a build reads.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from gym import labels
from gym.files import write_atomically
from gym.plan.model import Plan, Service, Sidecar
from gym.render.bake import BuildTarget, StackImages
from gym.render.server_dockerfile import render_dockerfile, render_ignore
from gym.runtime.compose.image_sources import ImageSources, ServerSource
from gym.runtime.compose.pins import LABEL_LOCKED, Pins
from gym.runtime.wheel import sdk_wheel

BASE: Final = "gym-base"
LABEL_ROLE: Final = "gym.image"  # "base" or "server"
LABEL_SOURCE: Final = "gym.source"  # the folder it was built from


def plan_images(plan: Plan, sources: ImageSources, pins: Pins | None = None) -> StackImages:
    """`pins` change how an image is built, and not what it is called."""
    base = _base_target(sources, pins)
    targets: dict[str, BuildTarget] = {}
    by_instance: dict[str, str] = {}
    texts: dict[Path, str] = {}
    for service in plan.services:
        if service.container.image:
            by_instance[service.name] = service.container.image
            continue
        target, files = _server_target(service, base, sources, set(targets), pins)
        known = next((one for one in targets.values() if one.tag == target.tag), None)
        targets.setdefault((known or target).name, target)
        by_instance[service.name] = target.tag
        texts |= files
    for one in plan.sidecars:
        if one.spec.image:
            by_instance[one.name] = one.spec.image
            continue
        target = _sidecar_target(one, sources, pins)
        known = next((other for other in targets.values() if other.tag == target.tag), None)
        targets.setdefault((known or target).name, target)
        by_instance[one.name] = target.tag
    return StackImages(base.tag, by_instance, base, tuple(targets.values()), texts, sources.base_files)


def write_build_files(images: StackImages, cache: Path) -> None:
    """Dockerfiles, and the context of the base with a wheel of the SDK in it."""
    for path, text in images.texts.items():
        write_atomically(path, text)
    context = Path(images.base_target.context)
    if context.is_dir():
        return
    wheel = sdk_wheel(cache / "wheels")
    unfinished = context.with_name(f"{context.name}.{os.getpid()}")  # renamed: half a context is never built from
    for name, source in {**images.base_files, f"dist/{wheel.name}": wheel}.items():
        (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, unfinished / name)
    try:
        unfinished.rename(context)
    except OSError:  # another command was first
        shutil.rmtree(unfinished)


def _base_target(sources: ImageSources, pins: Pins | None) -> BuildTarget:
    digest = _digest([sources.python, *sources.base_digests])
    context = sources.cache / "base" / digest
    locked = {LABEL_LOCKED: pins.label_of(())} if pins else {}
    return BuildTarget(
        name="base",
        context=str(context),
        dockerfile=str(context / "Dockerfile.base"),
        tag=f"{BASE}:{digest}",
        args={"PYTHON_IMAGE": pins.python if pins else sources.python},
        labels={LABEL_ROLE: "base", labels.OWNER: sources.owner, **locked},
    )


def _server_target(
    service: Service, base: BuildTarget, sources: ImageSources, taken: Collection[str], pins: Pins | None
) -> tuple[BuildTarget, dict[Path, str]]:
    source = sources.servers[service.name]
    name = _target_name(service, taken)
    if source.own is None:
        made = _make_dockerfile(service, source, base, sources, name, pins)
    else:
        made = _Dockerfile(source.own, source.own_text, "", {}, {})
    digest = _digest([base.tag, made.identity, *source.tree])
    image = re.sub(r"[^a-z0-9]+", "-", service.implementation.lower()).strip("-") or "server"
    target = BuildTarget(
        name=name,
        context=str(source.context),
        dockerfile=str(made.path),
        tag=f"gym-{image}:{digest}",
        args={} if source.own is None else {"GYM_BASE": base.tag},
        contexts=made.contexts,
        labels={
            LABEL_ROLE: "server",
            LABEL_SOURCE: str(source.context),
            labels.OWNER: sources.owner,
            **({LABEL_LOCKED: made.lock_label} if made.lock_label else {}),
        },
    )
    return target, made.texts


def _sidecar_target(sidecar: Sidecar, sources: ImageSources, pins: Pins | None) -> BuildTarget:
    """From the same image as our base, and not from the base itself: another SDK builds no database again."""
    source = sources.servers[sidecar.name]
    assert source.own is not None
    locked = {LABEL_LOCKED: pins.label_of(())} if pins else {}
    return BuildTarget(
        name=sidecar.slug,
        context=str(source.context),
        dockerfile=str(source.own),
        tag=f"gym-service-{sidecar.spec.name}:{_digest([sources.python, source.own_text, *source.tree])}",
        args={"BASE_IMAGE": pins.python if pins else sources.python},
        labels={LABEL_ROLE: "service", LABEL_SOURCE: str(source.context), labels.OWNER: sources.owner, **locked},
    )


class _Dockerfile(NamedTuple):
    path: Path
    identity: str  # what decides the tag: its text without a lock, and requirements from outside of the folder
    lock_label: str  # empty where no lock applies, or hashes are missing
    contexts: dict[str, str]
    texts: dict[Path, str]


def _make_dockerfile(
    service: Service, source: ServerSource, base: BuildTarget, sources: ImageSources, name: str, pins: Pins | None
) -> _Dockerfile:
    render = partial(render_dockerfile, sources.template, service, base=base.tag, packages=source.packages)
    render = partial(render, requirements=source.requirements)
    plain = render(overrides=source.overrides, portable=source.portable is not None)
    hashed = pins.requirements.get(service.name, ()) if pins else ()
    is_locked = pins is not None and bool(hashed or not source.requirements)
    path = sources.build / f"{name}.Dockerfile"
    text = render(locked=True) if hashed else plain
    texts = {path: text, path.with_name(f"{path.name}.dockerignore"): render_ignore()}
    contexts = {"sdk": f"{base.context}/dist"} if service.python and service.launch != "script" else {}
    kind, lines = ("locked", hashed) if hashed else ("portable", source.portable)
    if lines is not None:
        folder = sources.build / f"{name}.{kind}"
        contexts[kind] = str(folder)
        texts[folder / "requirements.txt"] = "".join(f"{line}\n" for line in lines)
    identity = "\n".join([plain, *(source.portable or ())])
    return _Dockerfile(path, identity, pins.label_of(hashed) if pins and is_locked else "", contexts, texts)


def _target_name(service: Service, taken: Collection[str]) -> str:
    """Instances of one implementation share an image; those of two that differ do not share a name."""
    return service.slug if service.slug not in taken else f"{service.slug}-{len(taken)}"


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
