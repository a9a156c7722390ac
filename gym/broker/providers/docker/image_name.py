"""Names of images: what an engine would understand by one, and whether a pattern of a grant covers it. Pure."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

DOMAIN: Final = re.compile(r"^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(?::\d{1,5})?$", re.IGNORECASE)
PART: Final = re.compile(r"^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$")
TAG: Final = re.compile(r"^\w[\w.-]{0,127}$", re.ASCII)
DIGEST: Final = re.compile(r"^sha256:[0-9a-f]{64}$")
HUB: Final = "docker.io"
OURS: Final = ("gym-task", "gym-fork", "gym-helper")  # repositories that only this provider writes


class ImageReference(NamedTuple):
    """`docker.io`, `library/python`, `3.13-slim`, ``: an image's full name. Without a tag it means `latest`."""

    domain: str
    path: str
    tag: str
    digest: str

    @property
    def repository(self) -> str:
        return f"{self.domain}/{self.path}"

    @property
    def whole(self) -> str:
        """The name for the engine: with its domain, so that it is never taken for the beginning of an id."""
        if self.digest:
            return f"{self.repository}@{self.digest}"
        return f"{self.repository}:{self.tag or 'latest'}"

    @property
    def ours(self) -> bool:
        return self.path.removeprefix("library/").partition("/")[0] in OURS and self.domain == HUB


def parse_reference(text: str) -> ImageReference:
    """ValueError where it is not an image's name, in words."""
    name, _, digest = text.partition("@")
    if digest and not DIGEST.fullmatch(digest):
        raise ValueError(f"{text!r}: a digest is sha256: and 64 hexadecimal digits")
    if name.endswith(":"):
        raise ValueError(f"{text!r} has no tag after its colon")
    name, tag = _split_tag(name)
    if tag and not TAG.fullmatch(tag):
        raise ValueError(f"{text!r}: {tag!r} is not a tag")
    if re.fullmatch(r"[0-9a-f]{64}", name):
        raise ValueError(f"{text!r} is an id; name the image by its repository")
    domain, path = _split_domain(name)
    if not DOMAIN.fullmatch(domain) or not path or not all(PART.fullmatch(part) for part in path.split("/")):
        raise ValueError(f"{text!r} is not an image's name: lower case, like python:3.13-slim or ghcr.io/org/name:tag")
    if len(path) > 255:
        raise ValueError(f"{text[:60]!r}... is too long for an image's name")
    return ImageReference(domain, path, tag, digest)


def covers(pattern: str, image: ImageReference) -> bool:
    """`*` stays within one part of the name, but at the end (`ghcr.io/org/*`) it takes all that is below.

    A pattern with a tag means that tag: a digest beside it could be anything, so such a name is not covered.
    """
    if pattern == "*":
        return True
    wanted, _, digest = pattern.partition("@")
    name, tag = _split_tag(wanted)
    domain, path = _split_domain(name)
    if digest:
        matches_version = image.digest == digest
    elif tag:
        matches_version = not image.digest and fnmatchcase(image.tag or "latest", tag)
    else:
        matches_version = True
    return matches_version and fnmatchcase(image.domain, domain) and _path_matches(path, image.path)


def _path_matches(pattern: str, path: str) -> bool:
    wanted, found = pattern.split("/"), path.split("/")
    if wanted[-1] in ("*", "**") and len(found) > len(wanted):
        found = [*found[: len(wanted) - 1], "rest"]
    return len(wanted) == len(found) and all(map(fnmatchcase, found, wanted))


def _split_tag(name: str) -> tuple[str, str]:
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "")


def _split_domain(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return ((HUB if first == "index.docker.io" else first), _official(rest) if first in _HUBS else rest)
    return HUB, _official(name)


def _official(path: str) -> str:
    return path if "/" in path else f"library/{path}"


_HUBS: Final = frozenset((HUB, "index.docker.io"))
