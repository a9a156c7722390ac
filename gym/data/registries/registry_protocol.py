"""What every registry of data sets can do, and what it says about what it did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gym.data.registries.address import RegistryAddress

Verified = Literal["sha256", "git", "size", ""]


@dataclass(frozen=True)
class RegistryEntry:
    """A data set, a version of one, or a file in it."""

    kind: Literal["data set", "version", "file"]
    name: str
    size: int | None = None
    digest: str = ""
    note: str = ""


@dataclass(frozen=True)
class Received:
    """A file that was fetched, and by what it was checked."""

    path: Path
    source: str
    size: int
    verified: Verified
    replaced: bool = False  # another file lay there before
    notes: tuple[str, ...] = ()  # what is to be known of its rows


@dataclass(frozen=True)
class UploadOptions:
    """How an upload is made. What a registry has no place for is refused by it."""

    file_name: str = ""  # in the registry; the file's own when empty
    message: str = ""
    description: str = ""
    pull_request: bool = False
    public: bool = False
    collection: str = ""


@dataclass(frozen=True)
class Stored:
    """A file that was uploaded, and what had that name before."""

    address: str
    file: str
    size: int
    sha256: str
    replaced: str = ""  # "" where nothing was replaced
    url: str = ""
    notes: tuple[str, ...] = ()


class Registry(Protocol):
    """A new one is a class with these four; `gym.data.registries.fetch.open_registry` chooses."""

    def entries(self, address: RegistryAddress) -> tuple[RegistryEntry, ...]:
        """What is directly below the address: data sets, versions or files."""

    def download(
        self, address: RegistryAddress, destination: Path, *, file: str = "", split: str = "", config: str = ""
    ) -> Received:
        """One file, or the rows of a split (of a configuration) as JSONL. Whole and checked, or not there."""

    def upload(self, address: RegistryAddress, source: Path, change: UploadOptions) -> Stored: ...

    def remove(self, address: RegistryAddress, file: str = "") -> str:
        """A file, a version or the whole data set; says what is gone."""
