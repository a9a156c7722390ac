"""Data sets as entries of a model registry: MLflow's, or GitLab's, which answers to the same requests.

A data set is a registered model, `x.x.x` a version of it, and its files are the artifacts of the version's run.
Eight requests are all it takes; the clients that exist bring 37 packages with them and cannot resume.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from gym.data.registries.access import Access
from gym.data.registries.address import RegistryAddress, need_version
from gym.data.registries.registry_protocol import Received, RegistryEntry, Stored, UploadOptions
from gym.data.registries.replies import refusal
from gym.data.registries.rest import RegistryRefused, Rest
from gym.data.registries.transfer import Remote, Retries, fetch_file
from gym.data.registries.upload_check import check_upload
from gym.errors import UserError

_T = TypeVar("_T")
_API: Final = "/api/2.0/mlflow"
_FILES: Final = "/api/2.0/mlflow-artifacts/artifacts"
VERSION_TAG: Final = "gitlab.version"  # GitLab makes it the version; on MLflow, which counts, it is looked up
DIGEST_TAG: Final = "gym.sha256."  # of a run, followed by the file's name
_KEY: Final = "mlflow_tracking_token"
_PAGE: Final = "200"


class ModelRegistry:
    def __init__(self, access: Access, retries: Retries | None = None) -> None:
        self._access = access
        self._rest = Rest(access.require("mlflow_tracking_uri"), access.mlflow_tracking_token)
        self._retries = retries
        self._gitlab = "/api/v4/" in access.mlflow_tracking_uri

    def entries(self, address: RegistryAddress) -> tuple[RegistryEntry, ...]:
        if not address.name:
            names = self._pages("registered-models/search", "registered_models", {}, str(address))
            return tuple(
                RegistryEntry("data set", f"gitlab:{one['name']}", note=one.get("description") or "") for one in names
            )
        if not address.version:
            return tuple(RegistryEntry("version", _version_of(one)) for one in self._versions(address))
        run = self._run(address)
        files = self._files(address, run)
        if files is None:
            raise UserError(f"{address}: this server lists no files", f"gym data download {address} FILE")
        return tuple(
            RegistryEntry("file", one["path"], _int(one.get("file_size")), _tags(run).get(DIGEST_TAG + one["path"], ""))
            for one in files
        )

    def download(
        self, address: RegistryAddress, destination: Path, *, file: str = "", split: str = "", config: str = ""
    ) -> Received:
        if config:
            raise UserError(f"{address}: a version here has no configurations", "Leave --config out.")
        if not file:
            file = self._file_of_split(address, self._run(need_version(address)), split)
        return fetch_file(self.remote(address, file), destination, self._retries)

    def remote(self, address: RegistryAddress, file: str) -> Remote:
        """A file of a version, and all that the registry knows of it."""
        run = self._run(need_version(address))
        listed = self._listed(address, run, file)
        size = _int(listed.get("file_size")) if listed else None
        url, what = self._url(run, file), f"{address}: {file}"
        return Remote(
            url=url,
            source=what,
            explain=lambda status: refusal(what, status, _KEY, self._access),
            authorization=self._rest.authorization(url),
            size=size,
            sha256=_tags(run).get(DIGEST_TAG + file, ""),
        )

    def upload(self, address: RegistryAddress, source: Path, change: UploadOptions) -> Stored:
        _check_change(need_version(address), change)
        file = change.file_name or source.name
        size, sha256 = check_upload(source, file)
        if not re.fullmatch(r"[\w.\- ]+", file, re.ASCII):
            raise UserError(f"{file!r}: a file's name there has letters, digits, dots, dashes and _ alone")
        run, notes = self._make_version(address, change)
        before = _tags(run).get(DIGEST_TAG + file, "")
        old = self._listed(address, run, file)
        what = f"{address}: {file}"
        # First the digest goes: a download meanwhile must not compare the new file with the old digest.
        if before:
            self._set_tag(run, file, "", what)
        self._ask(what, lambda: self._rest.put(self._url(run, file), source))
        if not self._set_tag(run, file, sha256, what):
            notes += ("this server stores no tags: downloads are checked by size alone",)
        replaced = "" if before == sha256 else _describe(old, before)
        return Stored(str(address), file, size, sha256, replaced, "", notes)

    def remove(self, address: RegistryAddress, file: str = "") -> str:
        if not address.name:
            raise UserError(f"{address}: which data set?", "Write gitlab:NAME or gitlab:NAME:VERSION.")
        if file:
            run = self._run(need_version(address))
            if self._files(address, run) is not None and not self._listed(address, run, file):
                raise refusal(f"{address}: {file}", 404, _KEY, self._access)
            self._ask(f"{address}: {file}", lambda: self._rest.delete(self._url(run, file)))
            self._set_tag(run, file, "", str(address))
            return f"{file} of {address}"
        if not address.version:
            self._call(str(address), "DELETE", "registered-models/delete", body={"name": address.name})
            return f"{address} and all its versions"
        number = str(self._find_version(address)["version"])
        body = {"name": address.name, "version": number}
        self._call(str(address), "DELETE", "model-versions/delete", body=body)
        return str(address)

    def _make_version(self, address: RegistryAddress, change: UploadOptions) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The run of that version, which is made where there is none."""
        self._make_entry(address.name)
        found = self._find_version(address, missing_ok=True)
        if found is not None:
            return self._run(address, found), ()
        tags = [{"key": VERSION_TAG, "value": address.version}]
        body: dict[str, Any] = {"name": address.name, "source": address.version, "tags": tags}
        if change.description or change.message:
            body["description"] = change.description or change.message
        if not self._gitlab:
            run = self._make_run(address)
            body |= {"run_id": run["info"]["run_id"], "source": run["info"]["artifact_uri"]}
        made = self._call(str(address), "POST", "model-versions/create", body=body)["model_version"]
        return self._run(address, made), (f"made {address}",)

    def _make_entry(self, name: str) -> None:
        try:
            self._rest.ask("POST", f"{_API}/registered-models/create", body={"name": name})
        except RegistryRefused as error:
            if error.code != "RESOURCE_ALREADY_EXISTS" and error.status not in (400, 409):
                raise refusal(f"gitlab:{name}", error.status, _KEY, self._access, error.detail) from None
            self._call(f"gitlab:{name}", "GET", "registered-models/get", query={"name": name})

    def _make_run(self, address: RegistryAddress) -> dict[str, Any]:
        body = {"experiment_id": "0", "run_name": f"{address.name} {address.version}"}
        run: dict[str, Any] = self._call(str(address), "POST", "runs/create", body=body)["run"]
        return run

    def _versions(self, address: RegistryAddress) -> list[dict[str, Any]]:
        if self._gitlab:  # it cannot search, but names the newest
            body = {"name": address.name}
            found = self._call(str(address), "POST", "registered-models/get-latest-versions", body=body)
            return list(found.get("model_versions") or ())
        query = {"filter": "name='{}'".format(address.name.replace("'", "\\'"))}
        found_all = self._pages("model-versions/search", "model_versions", query, str(address))
        if not found_all:
            self._call(str(address), "GET", "registered-models/get", query={"name": address.name})
        return sorted(found_all, key=lambda one: _int(one.get("version")) or 0, reverse=True)

    def _find_version(self, address: RegistryAddress, *, missing_ok: bool = False) -> Any:
        """By its tag; MLflow's own number will do. The newest where a tag was given twice."""
        if not self._gitlab:
            found = next((one for one in self._versions(address) if _version_of(one) == address.version), None)
            if found is not None or (missing_ok and not address.version.isdigit()):
                return found
        try:
            query = {"name": address.name, "version": address.version}
            return self._rest.ask("GET", f"{_API}/model-versions/get", query=query)["model_version"]
        except RegistryRefused as error:
            if missing_ok and error.status == 404:
                return None
            status = 404 if error.status == 400 else error.status  # a version that is not a number, to MLflow
            raise refusal(str(address), status, _KEY, self._access, error.detail) from None

    def _run(self, address: RegistryAddress, version: dict[str, Any] | None = None) -> dict[str, Any]:
        version = version or self._find_version(need_version(address))
        query = {"run_id": str(version.get("run_id") or "")}
        if not query["run_id"]:
            raise UserError(f"{address} has no run, and so no files", "It was not uploaded as a data set.")
        run: dict[str, Any] = self._call(str(address), "GET", "runs/get", query=query)["run"]
        return run

    def _listed(self, address: RegistryAddress, run: dict[str, Any], file: str) -> dict[str, Any] | None:
        return next((one for one in self._files(address, run) or () if one["path"] == file), None)

    def _files(self, address: RegistryAddress, run: dict[str, Any]) -> list[dict[str, Any]] | None:
        """None where the server cannot list files; GitLab's does not promise to."""
        try:
            found = self._rest.ask("GET", f"{_API}/artifacts/list", query={"run_id": run["info"]["run_id"]})
        except RegistryRefused as error:
            if error.status in (404, 405, 501):
                return None
            raise refusal(str(address), error.status, _KEY, self._access, error.detail) from None
        return [one for one in found.get("files") or () if not one.get("is_dir")]

    def _file_of_split(self, address: RegistryAddress, run: dict[str, Any], split: str) -> str:
        names = [str(one["path"]) for one in self._files(address, run) or ()]
        lines = [name for name in names if name.endswith(".jsonl")]
        named = [name for name in lines if split and split in name] or (lines if len(lines) == 1 else [])
        if len(named) == 1:
            return named[0]
        have = f"it has {', '.join(names)}" if names else "its server lists no files"
        raise UserError(f"{address}: which file? {have}", f"Name it: gym data download {address} FILE")

    def _url(self, run: dict[str, Any], file: str) -> str:
        """Where an artifact is read and written: the server's own files, or a URL that the run names."""
        uri, path = str(run["info"]["artifact_uri"]), quote(file.lstrip("/"))
        parts = urlsplit(uri)
        if parts.scheme in ("http", "https"):
            return f"{uri.rstrip('/')}/{path}"
        if parts.scheme == "mlflow-artifacts":
            host = f"http://{parts.netloc}" if parts.netloc else self._rest.base
            return f"{host}{_FILES}/{parts.path.strip('/')}/{path}"
        raise UserError(
            f"This registry stores files at {parts.scheme or 'a path of its own machine'}; only it can reach them",
            "Start it so that it hands them out: mlflow server --serve-artifacts",
        )

    def _set_tag(self, run: dict[str, Any], file: str, value: str, what: str) -> bool:
        run_id = run["info"]["run_id"]
        body = {"run_id": run_id, "run_uuid": run_id, "key": DIGEST_TAG + file, "value": value}
        try:
            self._rest.ask("POST", f"{_API}/runs/set-tag", body=body)
        except RegistryRefused as error:
            if error.status in (404, 405, 501):
                return False
            raise refusal(what, error.status, _KEY, self._access, error.detail) from None
        return True

    def _pages(self, path: str, key: str, query: dict[str, str], what: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            page = {**query, "max_results": _PAGE, **({"page_token": token} if token else {})}
            reply = self._call(what, "GET", path, query=page)
            found += reply.get(key) or ()
            token = reply.get("next_page_token") or ""
            if not token:
                return found

    def _call(self, what: str, method: str, path: str, **rest: Any) -> dict[str, Any]:
        return self._ask(what, lambda: self._rest.ask(method, f"{_API}/{path}", **rest))

    def _ask(self, what: str, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except RegistryRefused as error:
            status = 404 if error.code == "RESOURCE_DOES_NOT_EXIST" else error.status
            raise refusal(what, status, _KEY, self._access, error.detail) from None


def _check_change(address: RegistryAddress, change: UploadOptions) -> None:
    if not re.fullmatch(r"\d+\.\d+\.\d+", address.version):
        raise UserError(f"{address}: a version has three numbers", f"e.g. gitlab:{address.name}:0.0.1")
    if change.pull_request or change.public or change.collection:
        raise UserError(f"{address}: a model registry has no pull requests, collections or public entries")


def _describe(old: dict[str, Any] | None, digest: str) -> str:
    """What had a file's name: its size where files are listed, its checksum where it was uploaded from here."""
    known = f"sha256 {digest[:12]}" if digest else "no checksum"
    if old is None:
        return f"a file with {known}" if digest else ""
    return f"{_int(old.get('file_size')) or 0:,} bytes ({known})"


def _version_of(version: dict[str, Any]) -> str:
    return _tags(version).get(VERSION_TAG) or str(version.get("version", ""))


def _tags(thing: dict[str, Any]) -> dict[str, str]:
    """Of a version, or of a run, whose tags are in its data."""
    listed = thing.get("tags") or (thing.get("data") or {}).get("tags") or ()
    return {str(one.get("key")): str(one.get("value", "")) for one in listed}


def _int(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None
