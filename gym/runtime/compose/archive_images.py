"""The images of a saved stack under names of the loading stack's own: no tag of another stack or build is ever taken.

Read and written as a stream, in the format of `docker save`.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import IO, Any, Final

from gym.errors import UserError
from gym.runtime.compose.tar_checks import SuspectTar, open_plain, walk

LOADED: Final = "gym-loaded"
MAX_BLOBS: Final = 100_000  # files of an archive: layers, configurations and their folders
MAX_INDEX: Final = 16 << 20  # bytes of a list of names
BLOB: Final = re.compile(r"(?:blobs/sha256/)?([0-9a-f]{64})(?:\.json)?")
TAG_KEYS: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


def rename_images(source: IO[bytes], target: IO[bytes], wanted: frozenset[str], scope: str) -> dict[str, str]:
    """Copies an archive; old name -> new name. `wanted` are the only names it may have; `scope` is the stack's home."""
    renamed: dict[str, str] = {}
    with _plain(source) as old, tarfile.open(fileobj=target, mode="w") as new:
        for member in walk(old, MAX_BLOBS):
            _check_member(member)
            if member.isdir():
                new.addfile(member)
                continue
            file = old.extractfile(member)
            assert file is not None
            if member.name in ("manifest.json", "index.json"):
                change = _rename_manifest if member.name == "manifest.json" else _rename_index
                add_text(new, member.name, json.dumps(change(_read_json(file, member), wanted, scope, renamed)))
            elif member.name != "repositories":  # names once more, in a format that no engine needs by now
                new.addfile(member, file)
    if missing := wanted - renamed.keys():
        raise UserError(
            f"The file lacks images that it names: {', '.join(sorted(missing))}", "gym save writes a new one."
        )
    return renamed


def _rename_manifest(found: Any, wanted: frozenset[str], scope: str, renamed: dict[str, str]) -> Any:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise _bad("its list of images cannot be read")
    images = []
    for one in found:
        blob = BLOB.fullmatch(str(one.get("Config")))
        if blob is None:
            raise _bad("an image has no configuration")
        tags = [str(tag) for tag in one.get("RepoTags") or ()]
        for tag in tags:
            if tag not in wanted:
                raise _bad(f"it holds the image {tag}, which its stack does not name")
            renamed.setdefault(tag, _own_name(scope, tag, blob[1]))
        images.append({**one, "RepoTags": [renamed[tag] for tag in tags]})
    return images


def _rename_index(found: Any, wanted: frozenset[str], scope: str, renamed: dict[str, str]) -> Any:
    """An engine that keeps images in containerd's way takes names from here."""
    if not isinstance(found, dict):
        raise _bad("its index cannot be read")
    entries = []
    for one in found.get("manifests") or ():
        notes = one.get("annotations") if isinstance(one, dict) else None
        notes = notes if isinstance(notes, Mapping) else {}
        full = str(notes.get(TAG_KEYS[0], ""))
        tag = full.removeprefix("docker.io/library/").removeprefix("docker.io/")
        if full and tag not in wanted:
            raise _bad(f"it holds the image {tag}, which its stack does not name")
        kept = {key: value for key, value in notes.items() if key not in TAG_KEYS}
        if full:
            own = renamed.setdefault(tag, _own_name(scope, tag, str(one.get("digest"))))
            kept |= {TAG_KEYS[0]: f"docker.io/library/{own}", TAG_KEYS[1]: own.partition(":")[2]}
        entries.append({**one, "annotations": kept})
    return {**found, "manifests": entries}


def _own_name(scope: str, tag: str, digest: str) -> str:
    """Of this stack's folder, this name and this content: no other stack makes or asks for it."""
    return f"{LOADED}:{hashlib.sha256(chr(0).join((scope, tag, digest)).encode()).hexdigest()[:32]}"


@contextmanager
def _plain(source: IO[bytes]) -> Iterator[tarfile.TarFile]:
    try:
        with open_plain(source) as archive:
            yield archive
    except SuspectTar as error:
        raise _bad(str(error)) from None


def _check_member(member: tarfile.TarInfo) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise _bad(f"{member.name!r} is not a plain file")


def _read_json(file: IO[bytes], member: tarfile.TarInfo) -> Any:
    if member.size > MAX_INDEX:
        raise _bad(f"{member.name} is too long")
    try:
        return json.loads(file.read())
    except ValueError:
        raise _bad(f"{member.name} is not JSON") from None


def add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _bad(what: str) -> UserError:
    return UserError(f"The images of the file are refused: {what}.", "gym save -o FILE writes a new one.")
