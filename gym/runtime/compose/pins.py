"""What a lock says of a build: the image that it begins from by digest, each server's requirements by their hashes."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from gym.files import asset_dir
from gym.plan.model import Service
from gym.programs import find_program, run_program
from gym.runtime.wheel import DISTRIBUTION, sdk_wheel

LABEL_LOCKED: Final = "gym.locked"  # of an image that was built from a lock: the digest of what it says of that build
COMPILE: Final = ("--quiet", "--universal", "--generate-hashes", "--no-header", "--no-annotate")
NO_ADDRESSES: Final = ("--no-emit-index-url", "--no-emit-find-links")
COMPILE_SECONDS: Final = 300.0


class Pins(NamedTuple):
    python: str  # what FROM names: by digest, or a tag behind which the locked image lies
    digest: str
    requirements: Mapping[str, tuple[str, ...]]  # instance -> lines of a file for --require-hashes

    def label_of(self, lines: Iterable[str]) -> str:
        return hashlib.sha256("\n".join([self.digest, *lines]).encode()).hexdigest()[:24]


def shared_versions(installed: Iterable[str]) -> list[str]:
    """The versions that servers share, of packages that only another platform installs: here the image's own count."""
    own = {_name(line) for line in installed}
    lines = (asset_dir("requirements") / "server.txt").read_text("utf-8").splitlines()
    pinned = (line.removesuffix("\\").strip() for line in lines if "==" in line and not line.startswith((" ", "#")))
    return [line for line in pinned if _name(line) not in own]


def _name(line: str) -> str:
    return re.sub(r"[-_.]+", "-", line.partition("==")[0].strip()).lower()


def hash_requirements(
    service: Service, requirements: Path, overrides: Path | None, installed: Iterable[str], python: str, cache: Path
) -> tuple[str, ...]:
    """Every package that is installed for the server, in the versions of its image, with the hashes of all its files.

    The SDK itself is not part of it: it comes with the base, from this machine.
    """
    uv = str(find_program("uv", package="uv"))
    links = sdk_wheel(cache / "wheels").parent
    with tempfile.TemporaryDirectory() as folder:
        exact = Path(folder, "installed.txt")
        exact.write_text("".join(f"{line}\n" for line in installed if "==" in line))
        given = ["--constraint", str(exact)]
        if service.launch != "script":
            shared = Path(folder, "shared.txt")
            shared.write_text("\n".join(shared_versions(installed)), "utf-8")
            given += ["--constraint", str(shared), "--find-links", str(links)]
            given += ["--no-emit-package", DISTRIBUTION]
        if overrides is not None:
            given += ["--override", str(overrides)]
        argv = [uv, "pip", "compile", *COMPILE, *NO_ADDRESSES, "--python-version", python, *given, str(requirements)]
        return tuple(run_program(argv, cwd=requirements.parent, timeout=COMPILE_SECONDS).splitlines())
