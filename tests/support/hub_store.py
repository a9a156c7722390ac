"""What a hub of a test holds: data sets in folders, their commits, collections, and the faults it is to make."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.ranged import Faults

TOKEN = "hf_local0123456789abcdef"


@dataclass
class Repo:
    """Branches are folders; every commit has an id, and nothing of older ones is kept."""

    folder: Path
    private: bool
    commits: dict[str, str] = field(default_factory=dict)  # id -> branch, in their order
    messages: list[tuple[str, str]] = field(default_factory=list)
    pull_requests: int = 0

    @property
    def head(self) -> str:
        return self.head_of("main")

    def head_of(self, branch: str) -> str:
        return next((oid for oid, one in reversed(self.commits.items()) if one == branch), "0" * 40)

    def commit(self, title: str, description: str = "", branch: str = "main") -> str:
        self.messages.append((title, description))
        oid = hashlib.sha1(f"{self.folder}{len(self.commits)}".encode()).hexdigest()
        self.commits[oid] = branch
        return oid

    def branch(self, revision: str) -> Path | None:
        name = self.commits.get(revision, revision)
        folder = self.folder / name.replace("/", "--")
        return folder if folder.is_dir() else None


@dataclass
class Hub:
    root: Path
    port: int = 0
    repos: dict[str, Repo] = field(default_factory=dict)
    collections: dict[str, list[str]] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    blobs: dict[str, bytes] = field(default_factory=dict)  # of LFS, by sha256
    lfs_above: int = 10 << 20  # bytes
    open_to_all: bool = True  # else even public data sets need the token

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        """For a process with the real client: this hub, caches in its folder, and no other host."""
        off = ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_UPDATE_CHECK", "HF_HUB_DISABLE_XET")
        home = {"HF_ENDPOINT": self.url, "HF_HOME": str(self.root / ".home"), "HF_TOKEN": ""}
        return home | dict.fromkeys(off, "1")

    def add(self, name: str, files: Mapping[str, bytes], *, private: bool = False, revision: str = "main") -> Repo:
        """A data set with these files; files of one that is there are replaced."""
        repo = self.repos.setdefault(name, Repo(self.root / name, private))
        for path, content in files.items():
            place = repo.folder / revision.replace("/", "--") / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        repo.commit("Add files", branch=revision)
        return repo

    def read(self, name: str, path: str, revision: str = "main") -> bytes:
        return (self.repos[name].folder / revision.replace("/", "--") / path).read_bytes()
