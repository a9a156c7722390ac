"""What images are made from, read from disk once: digests of folders, requirements, Dockerfiles. Writes nothing."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import gym
from gym.config import extra_lines, portable_requirements, requirement_lines, requirements_digest
from gym.errors import UserError
from gym.files import asset_dir
from gym.plan.model import Plan, Service, Sidecar
from gym.render.server_dockerfile import IGNORED
from gym.runtime.user_state import owner

PYTHON_IMAGE: Final = "python:3.13-slim"
ENV_PYTHON_IMAGE: Final = "GYM_PYTHON_IMAGE"
OVERRIDES: Final = "overrides.txt"
APT: Final = "apt.txt"
PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?")  # name:architecture=version
# No server image runs these parts of the package, so an edit there builds nothing.
NOT_IN_SERVERS: Final = frozenset({"cli", "runtime", "collect"})


class ServerSource(NamedTuple):
    """The folder that one server's image is built from."""

    context: Path
    own: Path | None  # the Dockerfile that the user wrote
    own_text: str
    tree: tuple[str, ...]  # a line for each file
    requirements: str  # names of files in the folder; empty where there is nothing to install
    overrides: str
    portable: tuple[str, ...] | None  # the lines to install instead of what the folder says
    packages: tuple[str, ...] = ()  # of the system


class ImageSources(NamedTuple):
    build: Path  # where Dockerfiles are written
    cache: Path  # where the context of the base is laid out
    owner: str
    python: str  # what the base is built from
    template: str  # of a server's Dockerfile
    base_files: Mapping[str, Path]
    base_digests: tuple[str, ...]
    servers: Mapping[str, ServerSource]  # by instance, or sidecar; one whose image is prebuilt has none


def read_image_sources(plan: Plan, build: Path, cache: Path) -> ImageSources:
    files = _base_files()
    servers = {one.name: _read_server(one) for one in plan.services if not one.container.image}
    servers |= {one.name: _read_sidecar(one, Path(one.spec.build)) for one in plan.sidecars if one.spec.build}
    return ImageSources(
        build=build,
        cache=cache,
        owner=owner(),
        python=python_image(),
        template=(asset_dir("compose") / "server" / "Dockerfile.j2").read_text("utf-8"),
        base_files=files,
        base_digests=(*(f"{name}\0{digest_file(path)}" for name, path in files.items()), *_package_digests()),
        servers=servers,
    )


def python_image() -> str:
    """What the base of all servers is built from."""
    return os.environ.get(ENV_PYTHON_IMAGE) or PYTHON_IMAGE


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


def requirements_of(context: Path) -> tuple[str, str]:
    """The files that say what to install; empty where the base, which has the SDK without its extras, is enough."""
    if not requirements_digest(context, ()):
        return "", ""
    requirements = "requirements.txt" if (context / "requirements.txt").is_file() else "pyproject.toml"
    return requirements, OVERRIDES if (context / OVERRIDES).is_file() else ""


def packages_of(context: Path) -> tuple[str, ...]:
    """The packages of the system that `apt.txt` names, one on a line."""
    path = context / APT
    if not path.is_file():
        return ()
    lines = (line.partition("#")[0].strip() for line in path.read_text("utf-8").splitlines())
    packages = tuple(line for line in lines if line)
    for one in packages:
        if not PACKAGE.fullmatch(one):
            raise UserError(f"{path}: {one!r} is not the name of a Debian package.", "Write one name on each line.")
    return packages


def digest_tree(folder: Path) -> Iterator[str]:
    """One line a file that an image is made of."""
    for path in server_files(folder):
        yield f"{path.relative_to(folder)}\0{path.stat().st_mode & 0o111:o}\0{digest_file(path)}"


def server_files(folder: Path) -> Iterator[Path]:
    """What an image is made of, of what lies in a server's folder."""
    yield from files_below(folder, folder, is_ignored)


def is_ignored(name: str) -> bool:
    """As BuildKit reads the same patterns: `**/` is any folder, the rest begins at the top."""
    last = name.rpartition("/")[2]
    return any(
        fnmatch.fnmatchcase(last, pattern[3:])
        if pattern.startswith("**/")
        else name.count("/") == pattern.count("/") and fnmatch.fnmatchcase(name, pattern)
        for pattern in IGNORED
    )


def digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_server(service: Service) -> ServerSource:
    context, own = context_of(service)
    requirements, overrides = requirements_of(context) if own is None else ("", "")
    portable = portable_requirements(context, contained=True) if requirements else None
    if service.extras and own is None:
        portable = (*(portable or (requirement_lines(context) if requirements else ())), *extra_lines(service.extras))
    return ServerSource(
        context=context,
        own=own,
        own_text=own.read_text("utf-8") if own else "",
        tree=tuple(digest_tree(context)),
        requirements="requirements.txt" if portable is not None else requirements,
        overrides=overrides,
        portable=portable,
        packages=packages_of(context) if own is None else (),
    )


def _read_sidecar(sidecar: Sidecar, folder: Path) -> ServerSource:
    own = folder / "Dockerfile"
    if not own.is_file():
        raise UserError(f"{sidecar.name}: build: {folder} has no Dockerfile.", "Name a folder with a Dockerfile.")
    return ServerSource(folder, own, own.read_text("utf-8"), tuple(digest_tree(folder)), "", "", None)


def _base_files() -> dict[str, Path]:
    compose, locks = asset_dir("compose"), asset_dir("requirements")
    return {
        "Dockerfile.base": asset_dir("Dockerfile.base"),
        **{f"requirements/{name}": locks / name for name in ("sdk.txt", "server.txt", "uv.txt")},
        **{f"compose/base/{path.name}": path for path in sorted((compose / "base").iterdir())},
    }


def _package_digests() -> Iterator[str]:
    package = Path(gym.__file__).parent
    for path in sorted((*package.rglob("*.py"), *package.glob("broker/helper/bin/*"))):
        relative = path.relative_to(package)
        if relative.parts[0] not in NOT_IN_SERVERS:
            yield f"{relative}\0{digest_file(path)}"


def files_below(folder: Path, root: Path, leaves_out: Callable[[str], bool]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if leaves_out(path.relative_to(root).as_posix()):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from files_below(path, root, leaves_out)
        elif path.is_file():
            yield path
