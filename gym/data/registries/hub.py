"""Data sets on a Hugging Face hub, by the package `huggingface_hub`: the extra `hub`."""

from __future__ import annotations

import importlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from gym.config import redact_text
from gym.data.registries.access import Access
from gym.data.registries.address import RegistryAddress, need_repo
from gym.data.registries.download_lock import alone_with
from gym.data.registries.hub_card import name_of_config
from gym.data.registries.hub_upload import upload_file
from gym.data.registries.joining import NO_ROWS, join_parts, need_readers
from gym.data.registries.registry_protocol import Received, RegistryEntry, Stored, UploadOptions
from gym.data.registries.replies import BUSY, refusal, wait_asked
from gym.data.registries.splits import CopyOfSplit, files_of_split, find_copy, list_splits
from gym.data.registries.transfer import Remote, Retries, fetch_file
from gym.errors import GymError, InfraError, UserError
from gym.programs import install_command

KIND: Final = "dataset"
CONVERTED: Final = "refs/convert/parquet"  # where the hub itself puts a parquet copy
_OUTSIDE: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3"})
_PARTIAL: Final = "these are only the first rows: the hub's own parquet copy is a part of what is very large"
_CARD: Final = "README.md"
_CARD_BYTES: Final = 1 << 20
_SHORT: Final = 1 << 10  # bytes of what may be blank


class Hub:
    """`retries` waits while the hub says that it is busy."""

    def __init__(self, access: Access, retries: Retries | None = None) -> None:
        self._package = _load()
        self._access = access
        self._retries = retries or Retries()
        self._token = access.hf_token or None  # None: whatever `hf auth login` left
        self._api = self._package.HfApi(
            endpoint=access.hf_endpoint or None, token=self._token, library_name="compose-gym"
        )

    def entries(self, address: RegistryAddress) -> tuple[RegistryEntry, ...]:
        if "/" in address.name:
            return tuple(_file_entry(one) for one in self._tree(address))
        author = address.name or self._access.require("hf_organization")
        found = self.call(f"hf:{author}", lambda: list(self._api.list_datasets(author=author)))
        return tuple(RegistryEntry("data set", f"hf:{one.id}", note="private" if one.private else "") for one in found)

    def download(
        self, address: RegistryAddress, destination: Path, *, file: str = "", split: str = "", config: str = ""
    ) -> Received:
        need_repo(address)
        if file:
            return self._fetch(address, file, destination)
        names = [one.path for one in self._tree(address)]
        card = self._read_card(address) if _CARD in names else ""
        with _about(address):
            found = files_of_split(names, split, card, config)
        if found:
            return self._take(address, found, destination)
        copy = self._find_copy(address, split, name_of_config(card, config))
        if not copy.files:
            raise _no_split(address, split, names, list_splits(names, card, config) or copy.splits)
        got = self._take(_copy_of(address), copy.files, destination)
        return replace(got, notes=(*got.notes, _PARTIAL)) if copy.is_partial else got

    def upload(self, address: RegistryAddress, source: Path, change: UploadOptions) -> Stored:
        with self._no_progress_bars():
            return upload_file(self, need_repo(address), source, change)

    def remove(self, address: RegistryAddress, file: str = "") -> str:
        need_repo(address)
        if not file:
            self.call(str(address), lambda: self._api.delete_repo(address.name, repo_type=KIND))
            return f"hf:{address.name} and all its files"
        arguments = {"repo_id": address.name, "repo_type": KIND, "revision": address.version or None}
        self.call(f"{address}: {file}", lambda: self._api.delete_file(file, **arguments))
        return f"{file} of {address}"

    @property
    def api(self) -> Any:
        return self._api

    @property
    def access(self) -> Access:
        return self._access

    def call(self, what: str, ask: Callable[[], Any]) -> Any:
        """What the hub answers; waits where it is busy, and its refusals say which key they are about."""
        waits = list(self._retries.waits)
        while True:
            try:
                return _unwrapped(ask)
            except self._package.errors.HfHubHTTPError as error:
                status = error.response.status_code if error.response is not None else 500
                if status not in BUSY or not waits:
                    raise self._refused(what, error, status) from None
                wait = wait_asked(error.response.headers.get("Retry-After"), time.time())
                usual = waits.pop(0)
                self._retries.sleep(usual if wait is None else wait)
            except (self._package.errors.HFValidationError, ValueError) as error:
                raise UserError(f"{what}: {redact_text(str(error))}") from None
            except Exception as error:  # noqa: BLE001 (what is not the network's is raised as it is)
                _raise_unreachable(what, error)

    def info(self, address: RegistryAddress, file: str) -> Any:
        """What the hub knows of one file; None where there is none."""
        found = self.call(
            str(address),
            lambda: self._api.get_paths_info(
                address.name, [file], repo_type=KIND, revision=address.version or None, expand=True
            ),
        )
        return next((one for one in found if hasattr(one, "blob_id")), None)

    @contextmanager
    def _no_progress_bars(self) -> Iterator[None]:
        """What is printed is the command line's business."""
        utils = self._package.utils
        if utils.are_progress_bars_disabled():
            yield
            return
        utils.disable_progress_bars()
        try:
            yield
        finally:
            utils.enable_progress_bars()

    def _refused(self, what: str, error: Any, status: int) -> GymError:
        # Without a token the hub says 401 of what does not exist, and of what is private.
        missing = isinstance(error, self._package.errors.RepositoryNotFoundError)
        gated = isinstance(error, self._package.errors.GatedRepoError)
        if missing and not gated:
            status = 401 if self._access.hf_token and status == 401 and not _says_missing(error) else 404
        detail = redact_text(str(getattr(error, "server_message", "") or ""))
        return refusal(what, status, "hf_token", self._access, detail)

    def _tree(self, address: RegistryAddress) -> list[Any]:
        arguments = {"repo_type": KIND, "revision": address.version or None, "recursive": True}
        found = self.call(str(address), lambda: list(self._api.list_repo_tree(address.name, **arguments)))
        return [one for one in found if hasattr(one, "blob_id")]  # files; folders have none

    def _fetch(self, address: RegistryAddress, file: str, destination: Path) -> Received:
        return fetch_file(self._remote(address, file), destination, self._retries)

    def _remote(self, address: RegistryAddress, file: str) -> Remote:
        what = f"{address}: {file}"
        url = self._package.hf_hub_url(
            address.name, file, repo_type=KIND, revision=address.version or None, endpoint=self._api.endpoint
        )
        known = self.call(what, lambda: self._package.get_hf_file_metadata(url, token=self._token))
        etag = known.etag or ""
        headers = self._package.utils.build_hf_headers(token=self._token)
        commit = known.commit_hash or address.version
        return Remote(
            # The commit, so that a change meanwhile does not mix two states of the file.
            url=self._package.hf_hub_url(
                address.name, file, repo_type=KIND, revision=commit or None, endpoint=self._api.endpoint
            ),
            source=f"hf:{address.name}@{commit[:12]}: {file}" if commit else what,
            explain=lambda status: refusal(what, status, "hf_token", self._access),
            authorization=headers.get("authorization", ""),
            size=known.size,
            sha256=etag if len(etag) == 64 else "",
            git=etag if len(etag) == 40 else "",
        )

    def _read_card(self, address: RegistryAddress) -> str:
        card = self.info(address, _CARD)
        if card is None or card.size > _CARD_BYTES:
            return ""
        with tempfile.TemporaryDirectory() as folder:
            path = self._fetch(address, _CARD, Path(folder) / _CARD).path
            return path.read_text("utf-8", errors="replace")

    def _find_copy(self, address: RegistryAddress, split: str, config: str) -> CopyOfSplit:
        """Where a data set has no lines and no parquet, the hub's own copy may have it."""
        try:
            names = [] if address.version else [one.path for one in self._tree(_copy_of(address))]
        except UserError:
            names = []  # there is no such copy
        with _about(address):
            return find_copy(names, split, config)

    def _take(self, address: RegistryAddress, files: tuple[str, ...], destination: Path) -> Received:
        if len(files) > 1 or not files[0].endswith(".jsonl"):
            return self._join(address, files, destination)
        got = self._fetch(address, files[0], destination)
        has_rows = got.size > _SHORT or got.path.read_bytes().strip()
        return got if has_rows else replace(got, notes=(NO_ROWS,))

    def _join(self, address: RegistryAddress, files: tuple[str, ...], destination: Path) -> Received:
        """Parts in their order as one file of JSON lines; a fetch that failed leaves them for the next command."""
        need_readers(files)
        with alone_with(destination):
            beside = destination.with_name(f".{destination.name}.parts")
            parts = [self._fetch(address, file, beside / file.replace("/", "--")) for file in files]
            replaced = destination.exists()
            try:
                notes = join_parts(parts, destination)
            except GymError:  # they are what the hub has: to fetch them again would change nothing
                shutil.rmtree(beside)
                raise
            shutil.rmtree(beside)
        source = f"{parts[0].source}" + (f" and {len(parts) - 1} more" if len(parts) > 1 else "")
        return Received(destination, source, destination.stat().st_size, parts[0].verified, replaced, notes)


def _load() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        raise UserError(
            "A Hugging Face hub needs huggingface_hub, which is not installed", install_command("huggingface_hub")
        ) from None


@contextmanager
def _about(address: RegistryAddress) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise UserError(f"{address}: {error.what}", error.hint) from None


def _copy_of(address: RegistryAddress) -> RegistryAddress:
    return RegistryAddress("huggingface", address.name, CONVERTED)


def _no_split(address: RegistryAddress, split: str, names: list[str], splits: tuple[str, ...]) -> UserError:
    files = ", ".join(names[:10]) or "none"
    have = f"it has {', '.join(splits)}" if splits else f"none is known by its files' names ({files})"
    return UserError(
        f"{address} has no split {split!r}: {have}", f"Name a file instead: gym data download {address} FILE"
    )


def _unwrapped(ask: Callable[[], Any]) -> Any:
    """An upload's errors come wrapped in a RuntimeError."""
    try:
        return ask()
    except RuntimeError as error:
        if type(error) is RuntimeError and isinstance(error.__cause__, Exception):
            raise error.__cause__ from None
        raise


def _file_entry(one: Any) -> RegistryEntry:
    digest = one.lfs["sha256"] if one.lfs else one.blob_id
    return RegistryEntry("file", one.path, one.size, digest)


def _says_missing(error: Any) -> bool:
    return error.response is not None and error.response.headers.get("X-Error-Code") == "RepoNotFound"


def _raise_unreachable(what: str, error: Exception) -> NoReturn:
    """The package speaks through one of several HTTP clients, whose errors have no common class."""
    if type(error).__module__.split(".")[0] in _OUTSIDE or isinstance(error, (ConnectionError, TimeoutError)):
        raise InfraError(
            f"{what}: the hub cannot be reached: {redact_text(str(error))}", "Check the network and HF_ENDPOINT."
        ) from error
    raise error
