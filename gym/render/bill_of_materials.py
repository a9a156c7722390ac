"""What a stack is made of -> a CycloneDX document: images by digest, Python packages, data sets. Pure.

No clock and no chance: the same stack gives the same bytes, its serial number is the digest of the rest.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import orjson

from gym import __version__
from gym.render.package_licence import PLAIN, PackageFacts, licence_expression

SPEC_VERSION: Final = "1.6"
SHA256: Final = "sha256:"
OURS: Final = "compose-gym"
LICENCE_TEXT: Final = 80
Tree = dict[str, Any]
Hashes = Mapping[tuple[str, str], tuple[str, ...]]  # (name, version) -> of each file that an index has of it


class ImageContent(NamedTuple):
    """One image: how it is known, whose it is, and what is installed in it."""

    name: str
    id: str  # of its configuration and layers; "" where it is not here
    digest: str = ""  # that its registry knows it by
    used_by: tuple[str, ...] = ()
    packages: tuple[PackageFacts, ...] = ()


def make_bill(stack: str, images: Iterable[ImageContent], hashes: Hashes, data_sets: Mapping[str, str]) -> Tree:
    listed = sorted(images)
    packages = {_package_ref(one): one for image in listed for one in reversed(image.packages)}
    root = f"stack:{stack}"
    data = {path: digest for path, digest in data_sets.items() if _is_digest(SHA256 + digest)}
    document: Tree = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "tools": {"components": [{"type": "application", "name": OURS, "version": __version__}]},
            "component": {"type": "application", "bom-ref": root, "name": stack},
        },
        "components": [
            *(_image(one) for one in listed),
            *(_package(ref, packages[ref], hashes) for ref in sorted(packages)),
            *(_data_set(path, digest) for path, digest in sorted(data.items())),
        ],
        "dependencies": [
            {"ref": root, "dependsOn": [*map(_image_ref, listed), *map(_data_ref, sorted(data))]},
            *(_dependencies(one) for one in listed),
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode())
    return {**document, "serialNumber": f"urn:uuid:{serial}"}


def read_hashes(lines: Iterable[str]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Of a requirements file with hashes, as uv writes it."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    at = ("", "")
    for line in lines:
        if pinned := re.match(r"(?P<name>[A-Za-z0-9][\w.-]*)(\[[^]]*\])?==(?P<version>[^\s;\\]+)", line):
            at = (normal_name(pinned["name"]), pinned["version"])
        for one in re.findall(r"--hash=sha256:([0-9a-f]{64})", line):
            found[at] = tuple(sorted({*found.get(at, ()), one}))
    return found


def normal_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _image(image: ImageContent) -> Tree:
    repository, tag = _split(image.name)
    known = image.digest or image.id
    own: Tree = {"hashes": [_hash(known.removeprefix(SHA256))]} if _is_digest(known) else {}
    return {
        "type": "container",
        "bom-ref": _image_ref(image),
        "name": repository,
        "version": known if _is_digest(known) else tag,
        **own,
        "purl": _image_purl(image),
        "properties": [
            {"name": "gym:image", "value": image.name},
            *({"name": "gym:used-by", "value": one} for one in sorted(image.used_by)),
        ],
    }


def _image_purl(image: ImageContent) -> str:
    """By the digest of its registry; one that was built here and is in no registry by its own."""
    repository, tag = _split(image.name)
    name = _quoted(repository.rpartition("/")[2].lower())
    where = f"repository_url={_quoted(repository, '/')}&" if "/" in repository else ""
    label = f"?{where}tag={_quoted(tag)}"
    if image.digest:
        return f"pkg:oci/{name}@{_quoted(image.digest)}{label}"
    return f"pkg:docker/{name}@{_quoted(image.id if _is_digest(image.id) else tag)}{label}"


def _package(ref: str, facts: PackageFacts, hashes: Hashes) -> Tree:
    """A package comes from one of several files: the hashes of all are those of its distribution."""
    found = hashes.get((normal_name(facts.name), facts.version), ())
    whole = {"hashes": [_hash(found[0])]} if len(found) == 1 else {}
    listed = [{"type": "distribution", "url": ref, "hashes": [_hash(one) for one in found]}]
    return {
        "type": "library",
        "bom-ref": ref,
        "name": normal_name(facts.name),
        "version": facts.version,
        **whole,
        **_licences(facts),
        "purl": ref,
        **({"externalReferences": listed} if found else {}),
    }


def _licences(facts: PackageFacts) -> Tree:
    expression = licence_expression(facts)
    if expression in PLAIN:
        return {"licenses": [{"license": {"id": expression}}]}
    if expression:
        return {"licenses": [{"expression": expression}]}
    named = [one.rpartition(" :: ")[2] for one in facts.classifiers if one.startswith("License :: ")]
    text = " ".join((" ".join(named) or facts.licence).split())[:LICENCE_TEXT]
    return {"licenses": [{"license": {"name": text}}]} if text else {}


def _data_set(path: str, digest: str) -> Tree:
    return {"type": "data", "bom-ref": _data_ref(path), "name": path, "hashes": [_hash(digest)]}


def _dependencies(image: ImageContent) -> Tree:
    return {"ref": _image_ref(image), "dependsOn": sorted({_package_ref(one) for one in image.packages})}


def _package_ref(facts: PackageFacts) -> str:
    return f"pkg:pypi/{normal_name(facts.name)}@{_quoted(facts.version)}"


def _image_ref(image: ImageContent) -> str:
    return f"image:{image.name}"


def _data_ref(path: str) -> str:
    return f"data:{path}"


def _hash(content: str) -> Tree:
    return {"alg": "SHA-256", "content": content}


def _is_digest(text: str) -> bool:
    return re.fullmatch(r"sha256:[0-9a-f]{64}", text) is not None


def _split(name: str) -> tuple[str, str]:
    """`ghcr.io:443/org/name:tag@sha256:…` -> what stands before its tag, and the tag."""
    head, slash, last = name.partition("@")[0].rpartition("/")
    repository, _, tag = last.partition(":")
    return f"{head}{slash}{repository}", tag or "latest"


def _quoted(text: str, safe: str = "") -> str:
    return quote(text, safe=safe)


def instances_by_image(images: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Instance -> image, the other way round."""
    for image in sorted(set(images.values())):
        yield image, tuple(sorted(name for name, one in images.items() if one == image))
