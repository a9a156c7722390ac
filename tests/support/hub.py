"""A Hugging Face hub on this machine for the unmodified `huggingface_hub`: `with hub_server(tmp_path) as hub: ...`.

`hub.add("org/name", {"train.jsonl": b"..."})` puts a data set there; it lies in a folder: REPOSITORY/BRANCH/FILE.
Give a command `hub.environ`, or a library call `hub.url`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.ranged import Faults, Handler, serving

TOKEN = "hf_local0123456789abcdef"
DATE = "2026-01-02T03:04:05.000Z"


@dataclass
class Repo:
    """Branches are folders; every commit has an id, and nothing of older ones is kept."""

    folder: Path
    private: bool
    commits: list[str] = field(default_factory=list)
    messages: list[tuple[str, str]] = field(default_factory=list)
    pull_requests: int = 0

    @property
    def head(self) -> str:
        return self.commits[-1]

    def commit(self, title: str, description: str = "") -> str:
        self.messages.append((title, description))
        self.commits.append(hashlib.sha1(f"{self.folder}{len(self.commits)}".encode()).hexdigest())
        return self.head

    def branch(self, revision: str) -> Path | None:
        name = "main" if revision in self.commits else revision
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
        repo.commit("Add files")
        return repo

    def read(self, name: str, path: str, revision: str = "main") -> bytes:
        return (self.repos[name].folder / revision.replace("/", "--") / path).read_bytes()


@contextmanager
def hub_server(folder: Path) -> Iterator[Hub]:
    hub = Hub(folder / "hub")

    class Bound(_Hub):
        faults = hub.faults

    Bound.hub = hub
    with serving(Bound) as port:
        hub.port = port
        yield hub


class _Hub(Handler):
    hub: ClassVar[Hub]

    def do_GET(self) -> None:
        path, query = self._path()
        if path == "/api/whoami-v2":
            self.send_json({"type": "user", "name": "someone", "orgs": []} if self._has_token() else {}, 200)
        elif path == "/api/datasets":
            author = query.get("author", "")
            found = [(name, repo) for name, repo in self.hub.repos.items() if name.startswith(f"{author}/")]
            shown = [(name, repo) for name, repo in found if self._has_token() or not repo.private]
            self.send_json([self._info(name, repo) for name, repo in shown])
        elif path.startswith("/api/collections/"):
            self._collection(path.removeprefix("/api/collections/"))
        elif path.startswith("/api/datasets/"):
            self._of_repo(path.removeprefix("/api/datasets/"))
        elif path.startswith("/datasets/"):
            self._resolve(path.removeprefix("/datasets/"))
        elif path.startswith("/cdn/"):
            self._cdn(path.removeprefix("/cdn/"))
        else:
            self.send(404)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        path, query = self._path()
        body = self.body()
        if path.startswith("/api/datasets/") and "/paths-info/" in path:
            self._paths_info(path.removeprefix("/api/datasets/"), parse_qs(body.decode()))
        elif not self._has_token():
            self.send_json({"error": "Invalid credentials"}, 401)
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif "/preupload/" in path:
            self._preupload(json.loads(body))
        elif path.endswith(".git/info/lfs/objects/batch"):
            self._lfs_batch(json.loads(body))
        elif "/commit/" in path:
            self._commit(path.removeprefix("/api/datasets/"), query, body)
        elif path.startswith("/api/collections/"):
            self._collect(path.removeprefix("/api/collections/").removesuffix("/items"), json.loads(body))
        else:
            self.send(404)

    def do_PUT(self) -> None:
        oid, body = self._path()[0].removeprefix("/lfs/"), self.body()
        if hashlib.sha256(body).hexdigest() != oid:
            self.send(400)
            return
        self.hub.blobs[oid] = body
        self.send(200)

    def do_DELETE(self) -> None:
        asked = json.loads(self.body())
        name = f"{asked['organization']}/{asked['name']}"
        if not self._has_token() or name not in self.hub.repos:
            self._no_repo()
            return
        del self.hub.repos[name]
        self.send_json({})

    def _path(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return unquote(parts.path), {key: value[-1] for key, value in parse_qs(parts.query).items()}

    def _has_token(self) -> bool:
        return str(self.headers.get("Authorization")) == f"Bearer {TOKEN}"

    def _repo(self, name: str) -> Repo | None:
        """None, and the reply is sent, where it is not there or not for this caller."""
        given = self.headers.get("Authorization")
        if given and not self._has_token():
            self.send_json({"error": "Invalid credentials in Authorization header"}, 401)
            return None
        repo = self.hub.repos.get(name)
        if repo is None or ((repo.private or not self.hub.open_to_all) and not self._has_token()):
            self._no_repo()
            return None
        return repo

    def _no_repo(self) -> None:
        status = 404 if self._has_token() else 401
        self.send_json({"error": "Repository not found"}, status, {"X-Error-Code": "RepoNotFound"})

    def _branch(self, repo: Repo, revision: str) -> Path | None:
        folder = repo.branch(revision)
        if folder is None:
            self.send_json({"error": "Invalid rev id"}, 404, {"X-Error-Code": "RevisionNotFound"})
        return folder

    def _info(self, name: str, repo: Repo) -> dict[str, Any]:
        return {"id": name, "sha": repo.head, "private": repo.private, "tags": [], "siblings": []}

    def _of_repo(self, rest: str) -> None:
        org, name, *more = rest.split("/", 3)
        repo = self._repo(f"{org}/{name}")
        if repo is None:
            return
        if more and more[0] == "tree":
            folder = self._branch(repo, more[1])
            if folder is not None:
                self.send_json([self._entry(repo, folder, path) for path in _files(folder)])
        else:
            self.send_json(self._info(f"{org}/{name}", repo))

    def _entry(self, repo: Repo, folder: Path, path: str) -> dict[str, Any]:
        data = (folder / path).read_bytes()
        found: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": _git(data)}
        if len(data) > self.hub.lfs_above:
            found["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
        found["lastCommit"] = {"id": repo.head, "title": repo.messages[-1][0], "date": DATE}
        return found

    def _paths_info(self, rest: str, form: dict[str, list[str]]) -> None:
        name, _, revision = rest.partition("/paths-info/")
        repo = self._repo(name)
        folder = self._branch(repo, revision) if repo else None
        if repo is None or folder is None:
            return
        paths = [path for path in form.get("paths", []) if (folder / path).is_file()]
        self.send_json([self._entry(repo, folder, path) for path in paths])

    def _resolve(self, rest: str) -> None:
        name, _, tail = rest.partition("/resolve/")
        repo = self._repo(name)
        if repo is None:
            return
        revision, _, path = tail.partition("/")
        if revision not in (*repo.commits, "main") and repo.branch(revision) is None:
            revision, path = "refs/convert/parquet", tail.removeprefix("refs/convert/parquet/")
        folder = self._branch(repo, revision)
        if folder is None:
            return
        if not (folder / path).is_file():
            self.send_json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
            return
        self._file((folder / path).read_bytes(), repo)

    def _file(self, data: bytes, repo: Repo) -> None:
        common = {"X-Repo-Commit": repo.head, "ETag": f'"{_git(data)}"', "Accept-Ranges": "bytes"}
        if len(data) <= self.hub.lfs_above:
            self.send_range(data, common)
            return
        oid = hashlib.sha256(data).hexdigest()
        self.hub.blobs[oid] = data
        where = f"http://localhost:{self.hub.port}/cdn/{oid}?signature=secret"
        self.send(302, b"", {**common, "X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(data)), "Location": where})

    def _cdn(self, oid: str) -> None:
        """Like a store behind signed URLs: a token of the hub has no business here."""
        if "Authorization" in self.headers:
            self.send(400)
        else:
            self.send_range(self.hub.blobs[oid], {"ETag": '"of-the-store"'})

    def _create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.hub.repos:
            self.send_json({"error": "You already created this dataset repo"}, 409)
            return
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.hub.add(name, {".gitattributes": b"*.jsonl filter=lfs\n"}, private=private)
        self.send_json({"url": f"{self.hub.url}/datasets/{name}", "name": name, "id": name})

    def _preupload(self, asked: dict[str, Any]) -> None:
        modes = [(one["path"], "lfs" if one["size"] > self.hub.lfs_above else "regular") for one in asked["files"]]
        self.send_json({"files": [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes]})

    def _lfs_batch(self, asked: dict[str, Any]) -> None:
        objects = [
            {**one, "actions": {"upload": {"href": f"{self.hub.url}/lfs/{one['oid']}"}}} for one in asked["objects"]
        ]
        self.send_json({"transfer": "basic", "objects": objects}, 200)

    def _commit(self, rest: str, query: dict[str, str], body: bytes) -> None:
        name, _, revision = rest.partition("/commit/")
        repo = self._repo(name)
        folder = self._branch(repo, revision) if repo else None
        if repo is None or folder is None:
            return
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        header = next(line["value"] for line in lines if line["key"] == "header")
        request = query.get("create_pr") == "1"
        if request:
            repo.pull_requests += 1
            folder = repo.folder / f"refs--pr--{repo.pull_requests}"
        for line in lines:
            if not self._apply(folder, line["key"], line["value"]):
                self.send_json({"error": "A file with this name doesn't exist"}, 404, {"X-Error-Code": "EntryNotFound"})
                return
        oid = repo.commit(header["summary"], header["description"])
        url = f"{self.hub.url}/datasets/{name}"
        reply: dict[str, Any] = {
            "success": True,
            "commitOid": oid,
            "commitUrl": f"{url}/commit/{oid}",
            "hookOutput": "",
        }
        if request:
            reply["pullRequestUrl"] = f"{url}/discussions/{repo.pull_requests}"
        self.send_json(reply)

    def _apply(self, folder: Path, key: str, value: dict[str, Any]) -> bool:
        if key == "header":
            return True
        place: Path = folder / value["path"]
        if key == "deletedFile":
            there = place.is_file()
            place.unlink(missing_ok=True)
            return there
        place.parent.mkdir(parents=True, exist_ok=True)
        content = self.hub.blobs[value["oid"]] if key == "lfsFile" else base64.b64decode(value["content"])
        place.write_bytes(content)
        return True

    def _collection(self, slug: str) -> None:
        items = self.hub.collections.get(slug)
        if items is None:
            self.send_json({"error": "Collection not found"}, 404)
            return
        shown = [{"_id": f"id{n}", "id": item, "type": "dataset", "position": n} for n, item in enumerate(items)]
        common = {"title": slug, "owner": {"name": slug.split("/")[0]}, "lastUpdated": DATE, "position": 0}
        self.send_json({**common, "slug": slug, "items": shown, "private": False, "theme": "blue", "upvotes": 0})

    def _collect(self, slug: str, asked: dict[str, Any]) -> None:
        items = self.hub.collections.get(slug)
        if items is not None and asked["item"]["id"] in items:
            self.send_json({"error": "Item already in collection"}, 409)
            return
        if items is not None:
            items.append(asked["item"]["id"])
        self._collection(slug)


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _git(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
