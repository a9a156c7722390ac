"""A wheel of the SDK as it is installed here, made without network: what servers' environments and images install.

The same sources give the same bytes, under a folder named by their digest.
"""

from __future__ import annotations

import base64
import hashlib
import os
import threading
import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import gym
from gym.errors import InfraError

DISTRIBUTION = "compose-gym"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT = ("__pycache__", "_assets")


def sdk_wheel(cache: Path) -> Path:
    """The wheel's path below `cache`; made once for each state of the sources."""
    facts = _distribution()
    files = _sources() | _dist_info(facts)
    version = facts.version
    name = f"compose_gym-{version}-py3-none-any.whl"
    target = cache / _digest(files) / name
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")  # several make one at once
    try:
        _write_wheel(unfinished, files, f"compose_gym-{version}.dist-info/RECORD")
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def _distribution() -> metadata.Distribution:
    try:
        return metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError as error:
        raise InfraError(
            f"{DISTRIBUTION} runs from {_package()} without being installed, so no wheel of it can be made.",
            "In a checkout: scripts/env",
        ) from error


def _package() -> Path:
    return Path(gym.__file__).parent


def _sources() -> dict[str, bytes]:
    package = _package()
    found = (path for path in sorted(package.rglob("*")) if path.is_file())
    relative = {path: path.relative_to(package.parent) for path in found}
    return {
        name.as_posix(): path.read_bytes()
        for path, name in relative.items()
        if not set(_LEFT_OUT) & set(name.parts) and path.suffix != ".pyc"
    }


def _dist_info(facts: metadata.Distribution) -> dict[str, bytes]:
    folder = f"compose_gym-{facts.version}.dist-info"
    texts = {
        "METADATA": facts.read_text("METADATA") or "",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: compose-gym\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": facts.read_text("entry_points.txt") or "",
    }
    return {f"{folder}/{name}": text.encode() for name, text in texts.items()}


def _digest(files: Mapping[str, bytes]) -> str:
    sum_ = hashlib.sha256()
    for name, content in sorted(files.items()):
        sum_.update(f"{name}\0{len(content)}\0".encode())
        sum_.update(content)
    return sum_.hexdigest()[:16]


def _write_wheel(path: Path, files: Mapping[str, bytes], record: str) -> None:
    lines = [f"{name},sha256={_record_hash(content)},{len(content)}" for name, content in files.items()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (*files.items(), (record, "\n".join([*lines, f"{record},,", ""]).encode())):
            archive.writestr(_entry(name), content)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _record_hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
