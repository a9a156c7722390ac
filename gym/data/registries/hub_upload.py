"""A file onto a hub: a repository that is private when it is made, a commit or a pull request, a collection."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from gym.data.registries.access import Access
from gym.data.registries.address import RegistryAddress
from gym.data.registries.registry_protocol import Stored, UploadOptions
from gym.data.registries.upload_check import check_upload
from gym.errors import UserError

_KIND = "dataset"
_MAIN = "main"


class HubCalls(Protocol):
    """The part of `Hub` that an upload needs."""

    @property
    def api(self) -> Any: ...
    @property
    def access(self) -> Access: ...
    def call(self, what: str, ask: Any) -> Any: ...
    def info(self, address: RegistryAddress, file: str) -> Any: ...


def name_repo(access: Access, domain: str, name: str) -> str:
    """ORG/PREFIX-DOMAIN-NAME, as data sets of NeMo Gym are called."""
    organization = access.require("hf_organization")
    parts = (access.hf_dataset_prefix, domain, name)
    return f"{organization}/{'-'.join(part.replace(' ', '-') for part in parts if part)}"


def upload_file(hub: HubCalls, address: RegistryAddress, source: Path, change: UploadOptions) -> Stored:
    """Commits the file. What it replaced is named by its checksum; git still has it."""
    if change.pull_request and address.version not in ("", _MAIN):
        raise UserError(
            f"{address}: a pull request goes to {_MAIN}", f"Leave @{address.version} or the pull request out."
        )
    file, notes = change.file_name or source.name, []
    size, sha256 = check_upload(source, file)
    arguments = {"repo_id": address.name, "repo_type": _KIND}
    there = hub.call(str(address), lambda: hub.api.repo_exists(**arguments))
    if not there:
        hub.call(str(address), lambda: hub.api.create_repo(**arguments, private=not change.public, exist_ok=True))
        notes.append(f"made {address.name}, {'public' if change.public else 'private'}")
    before = hub.info(address, file) if there else None
    commit = hub.call(
        f"{address}: {file}",
        lambda: hub.api.upload_file(
            path_or_fileobj=str(source),
            path_in_repo=file,
            **arguments,
            revision=address.version or None,
            commit_message=change.message or f"Upload {file}",
            commit_description=change.description or None,
            create_pr=change.pull_request,
        ),
    )
    if change.collection:
        notes.append(_collect(hub, address, change.collection))
    url = str(getattr(commit, "pr_url", None) or commit.commit_url)
    return Stored(str(address), file, size, sha256, _describe(before, sha256), url, tuple(notes))


def _collect(hub: HubCalls, address: RegistryAddress, collection: str) -> str:
    hub.call(
        f"collection {collection}",
        lambda: hub.api.add_collection_item(collection, address.name, _KIND, exists_ok=True),
    )
    return f"it is in the collection {collection}"


def _describe(before: Any, sha256: str) -> str:
    """What had the name: empty where nothing had, or the same content."""
    if before is None:
        return ""
    digest = before.lfs["sha256"] if before.lfs else ""
    if digest == sha256:
        return ""
    commit = getattr(before.last_commit, "oid", "") if before.last_commit else ""
    known = digest[:12] or f"git {before.blob_id[:12]}"
    return f"{before.size:,} bytes ({known})" + (f" of commit {commit[:12]}" if commit else "")
