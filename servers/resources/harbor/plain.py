"""An environment out of this machine's own programs: for providers without images, and Dockerfiles that only copy.

Pure: a Dockerfile in, what it asks for out. One that needs more than a base userland is refused, line by line.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build

WORKDIR: Final = "/app"
ROOTS: Final = ("/root", "/tmp", "/tests", "/logs")  # beside the folder of work: what may be written there
WITHOUT_EFFECT: Final = ("CMD", "ENTRYPOINT", "EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL", "HEALTHCHECK")


@dataclass
class PlainPlace:
    workdir: str = WORKDIR
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


def read_plain(build: Build, bases: tuple[str, ...]) -> PlainPlace:
    place, first = PlainPlace(), True
    for number, line in _instructions(build.dockerfile):
        word, _, rest = line.partition(" ")
        try:
            _apply(place, word.upper(), rest.strip(), build.files, bases, first=first)
        except ValueError as problem:
            what = f"this machine has no images, and its Dockerfile needs one: line {number}, `{line[:60]}`: {problem}"
            raise RolloutError("row", f"{what}. Use the provider `docker`.", retryable=False) from None
        first = False
    return place


def check_base(image: str, bases: tuple[str, ...]) -> None:
    if not any(fnmatchcase(image.removeprefix("docker.io/").removeprefix("library/"), base) for base in bases):
        raise ValueError(f"{image} may hold more than a base system (plain_bases: {', '.join(bases)})")


def _apply(
    place: PlainPlace, word: str, rest: str, files: Mapping[str, bytes], bases: tuple[str, ...], *, first: bool
) -> None:
    if word == "FROM":
        if not first:
            raise ValueError("it has several stages")
        check_base(rest.split()[0], bases)
    elif word == "WORKDIR":
        place.workdir = posixpath.normpath(posixpath.join(place.workdir, rest))
    elif word == "ENV":
        pairs = shlex.split(rest)
        named = pairs if all("=" in one for one in pairs) else ["=".join(rest.split(None, 1))]
        place.env |= dict(one.split("=", 1) for one in named)
    elif word in ("COPY", "ADD"):
        _copy(place, shlex.split(rest), files)
    elif word not in WITHOUT_EFFECT and (word, rest) != ("USER", "root"):
        raise ValueError(f"{word} cannot be done without an image")


def _copy(place: PlainPlace, words: list[str], files: Mapping[str, bytes]) -> None:
    *sources, last = words
    if not sources or any(one.startswith(("--", "[")) for one in words):
        raise ValueError("only plain paths can be copied")
    target = posixpath.normpath(posixpath.join(place.workdir, last))
    into = last.endswith("/") or last in (".", "./") or len(sources) > 1 or target == place.workdir
    for source in sources:
        name = posixpath.normpath(source)
        below = {path: path.removeprefix(f"{name}/") for path in files if name == "." or path.startswith(f"{name}/")}
        alone = {name: posixpath.basename(name) if into else ""} if name in files else {}
        if not (below or alone):
            raise ValueError(f"{source} is not beside the Dockerfile")
        for path, rest in (below or alone).items():
            _put(place, posixpath.join(target, rest) if rest else target, files[path])


def _put(place: PlainPlace, path: str, data: bytes) -> None:
    if not any(path.startswith(f"{root}/") for root in (place.workdir, *ROOTS)):
        raise ValueError(f"{path} lies outside of {place.workdir}")
    place.files[path] = data


def _instructions(dockerfile: str) -> list[tuple[int, str]]:
    """With the number of the line on which each begins; lines that end with a backslash are one."""
    found: list[tuple[int, str]] = []
    half, began = "", 0
    for number, line in enumerate(dockerfile.splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        began = began if half else number
        half += text.removesuffix("\\").strip() + " "
        if not text.endswith("\\"):
            found.append((began, half.strip()))
            half = ""
    return found
