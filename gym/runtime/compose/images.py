"""Images of a plan: which there must be, by content, and building those that are missing, all at once.

A tag names what went in (base, Dockerfile, files), so an unchanged server builds nothing.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import gym
from gym import labels
from gym.config import portable_requirements, requirements_digest
from gym.errors import UserError
from gym.files import asset_dir, write_atomically
from gym.plan.model import Plan, Service
from gym.render.bake import BuildTarget
from gym.render.dockerfile import IGNORED, render_dockerfile, render_ignore
from gym.runtime.compose.pins import LABEL_LOCKED, Pins
from gym.runtime.wheel import sdk_wheel

PYTHON_IMAGE: Final = "python:3.13-slim"
ENV_PYTHON_IMAGE: Final = "GYM_PYTHON_IMAGE"
ENV_OWNER: Final = "GYM_OWNER"
BASE: Final = "gym-base"
# No server image runs these parts of the package, so an edit there builds nothing.
NOT_IN_SERVERS: Final = frozenset({"cli", "runtime", "collect"})
LABEL_ROLE: Final = "gym.image"  # "base" or "server"
LABEL_SOURCE: Final = "gym.source"  # the folder it was built from
OVERRIDES: Final = "overrides.txt"


class Images(NamedTuple):
    base: str
    by_instance: dict[str, str]
    base_target: BuildTarget
    targets: tuple[BuildTarget, ...]  # every server image that we build, whether it exists or not


def plan_images(plan: Plan, folder: Path, cache: Path, pins: Pins | None = None) -> Images:
    """Lays out below `folder` (Dockerfiles) and `cache` (the base's context) whatever a build needs. Builds nothing.

    `pins` change how an image is built, and not what it is called.
    """
    base = _base_target(cache, pins)
    targets: dict[str, BuildTarget] = {}
    by_instance: dict[str, str] = {}
    for service in plan.services:
        if service.container.image:
            by_instance[service.name] = service.container.image
            continue
        target = _server_target(service, base, folder, set(targets), pins)
        known = next((one for one in targets.values() if one.tag == target.tag), None)
        targets.setdefault((known or target).name, target)
        by_instance[service.name] = target.tag
    return Images(base.tag, by_instance, base, tuple(targets.values()))


def python_image() -> str:
    """What the base of all servers is built from."""
    return os.environ.get(ENV_PYTHON_IMAGE) or PYTHON_IMAGE


def _base_target(cache: Path, pins: Pins | None) -> BuildTarget:
    compose, locks = asset_dir("compose"), asset_dir("requirements")
    dockerfile = asset_dir("Dockerfile.base")
    python = python_image()
    scripts = sorted((compose / "base").iterdir())
    files = {
        "Dockerfile.base": dockerfile,
        **{f"requirements/{name}": locks / name for name in ("sdk.txt", "server.txt", "uv.txt")},
        **{f"compose/base/{path.name}": path for path in scripts},
    }
    parts = [python, *(f"{name}\0{digest_file(path)}" for name, path in files.items()), *_package_digests()]
    digest = _digest(parts)
    context = cache / "base" / digest
    if not context.is_dir():
        _lay_out(context, files | {f"dist/{wheel.name}": wheel for wheel in [sdk_wheel(cache / "wheels")]})
    return BuildTarget(
        name="base",
        context=str(context),
        dockerfile=str(context / "Dockerfile.base"),
        tag=f"{BASE}:{digest}",
        args={"PYTHON_IMAGE": pins.python if pins else python},
        labels={LABEL_ROLE: "base", labels.OWNER: owner(), **({LABEL_LOCKED: pins.label_of(())} if pins else {})},
    )


def _package_digests() -> Iterator[str]:
    package = Path(gym.__file__).parent
    for path in sorted((*package.rglob("*.py"), *package.glob("sandbox/helper/bin/*"))):
        relative = path.relative_to(package)
        if relative.parts[0] not in NOT_IN_SERVERS:
            yield f"{relative}\0{digest_file(path)}"


def _lay_out(context: Path, files: Mapping[str, Path]) -> None:
    """Beside its place, then renamed: half a context is never built from."""
    unfinished = context.with_name(f"{context.name}.{os.getpid()}")
    for name, source in files.items():
        (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, unfinished / name)
    try:
        unfinished.rename(context)
    except OSError:  # another command was first
        shutil.rmtree(unfinished)


def _server_target(
    service: Service, base: BuildTarget, folder: Path, taken: Collection[str], pins: Pins | None
) -> BuildTarget:
    context, own = context_of(service)
    name = _target_name(service, taken)
    locked: Locked | None = None
    contexts: dict[str, str] = {}
    if own is None:
        path, text, locked, contexts = _write_dockerfile(service, base, folder, name, pins)
    else:
        path, text = own, own.read_text("utf-8")
    digest = _digest([base.tag, text, *digest_tree(context)])
    image = re.sub(r"[^a-z0-9]+", "-", service.implementation.lower()).strip("-") or "server"
    return BuildTarget(
        name=name,
        context=str(context),
        dockerfile=str(path),
        tag=f"gym-{image}:{digest}",
        args={} if own is None else {"GYM_BASE": base.tag},
        contexts=contexts,
        labels={
            LABEL_ROLE: "server",
            LABEL_SOURCE: str(context),
            labels.OWNER: owner(),
            **({LABEL_LOCKED: locked.label} if locked else {}),
        },
    )


class Locked(NamedTuple):
    label: str


class Written(NamedTuple):
    path: Path
    plain: str  # what it would say without a lock
    locked: Locked | None  # what of it a lock says: nothing where hashes are missing
    contexts: dict[str, str]


def _write_dockerfile(service: Service, base: BuildTarget, folder: Path, name: str, pins: Pins | None) -> Written:
    assert service.directory is not None
    template = (asset_dir("compose") / "server" / "Dockerfile.j2").read_text("utf-8")
    requirements, overrides = requirements_of(service.directory)
    portable = portable_requirements(service.directory, contained=True) if requirements else None
    requirements = "requirements.txt" if portable is not None else requirements
    render = partial(render_dockerfile, template, service, base=base.tag, requirements=requirements)
    plain = render(overrides=overrides, portable=portable is not None)
    contexts = {"sdk": f"{base.context}/dist"} if service.python and service.launch != "script" else {}
    text, lines, locked = plain, pins.requirements.get(service.name, ()) if pins else (), None
    if pins is not None and (lines or not requirements):
        text = render(locked=True) if lines else text
        locked = Locked(pins.label_of(lines))
    if beside := {"locked": lines} if lines and locked else {"portable": portable} if portable is not None else {}:
        contexts |= {kind: _write_lines(folder / f"{name}.{kind}", found) for kind, found in beside.items()}
    path = folder / f"{name}.Dockerfile"
    write_atomically(path, text)
    write_atomically(path.with_name(f"{path.name}.dockerignore"), render_ignore())
    # What is asked for decides the tag as well, and lies outside of the server's folder.
    return Written(path, "\n".join([plain, *(portable or ())]), locked, contexts)


def _write_lines(folder: Path, lines: Iterable[str]) -> str:
    write_atomically(folder / "requirements.txt", "".join(f"{line}\n" for line in lines))
    return str(folder)


def requirements_of(context: Path) -> tuple[str, str]:
    """The files that say what to install; empty where the base, which has the SDK without its extras, is enough."""
    if not requirements_digest(context, ()):
        return "", ""
    requirements = "requirements.txt" if (context / "requirements.txt").is_file() else "pyproject.toml"
    return requirements, OVERRIDES if (context / OVERRIDES).is_file() else ""


def _target_name(service: Service, taken: Collection[str]) -> str:
    """Instances of one implementation share an image; those of two that differ do not share a name."""
    return service.slug if service.slug not in taken else f"{service.slug}-{len(taken)}"


def context_of(service: Service) -> tuple[Path, Path | None]:
    """The folder an image is built from, and the Dockerfile that the user wrote, if any."""
    if service.container.build is not None:
        folder = Path(service.container.build)
        own = folder if folder.is_file() else folder / "Dockerfile"
        if not own.is_file():
            raise UserError(
                f"{service.name}: build: {folder} has no Dockerfile.",
                "Name a folder with a Dockerfile, or the file itself.",
            )
        return own.parent, own
    assert service.directory is not None
    own = service.directory / "Dockerfile"
    return service.directory, own if own.is_file() else None


def digest_tree(folder: Path) -> Iterator[str]:
    """One line a file that an image is made of."""
    for path in _files(folder, folder):
        yield f"{path.relative_to(folder)}\0{path.stat().st_mode & 0o111:o}\0{digest_file(path)}"


def _files(folder: Path, root: Path) -> Iterable[Path]:
    for path in sorted(folder.iterdir()):
        if is_ignored(path.relative_to(root).as_posix()):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _files(path, root)
        elif path.is_file():
            yield path


def is_ignored(name: str) -> bool:
    """As BuildKit reads the same patterns: `**/` is any folder, the rest begins at the top."""
    last = name.rpartition("/")[2]
    return any(
        fnmatch.fnmatchcase(last, pattern[3:]) if pattern.startswith("**/") else fnmatch.fnmatchcase(name, pattern)
        for pattern in IGNORED
    )


def digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def owner() -> str:
    """Whose it is: `gym down --sweep` takes only what is its user's. GYM_OWNER tells apart who shares an account."""
    return os.environ.get(ENV_OWNER) or str(os.getuid())
