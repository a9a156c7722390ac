"""Copies of what there is to read of each environment, for the console: its container sees no folder of servers.

Mounting the folders themselves would show it the configurations and whatever else a user keeps there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gym.config.catalog import CatalogEntry, list_servers
from gym.config.example_rows import example_of
from gym.config.strict import VERIFIERS, declares_strict
from gym.files import SHARED, own_root, write_atomically
from gym.wire.catalog_copy import AUDITS, INDEX, CopiedCatalog, CopiedEnvironment

MAX_FILE: Final = 20_000_000  # bytes; the page reads no more of a file either
NAMED: Final = ("README.md", "data/verifier_cases.jsonl")


@contextmanager
def writing_catalog(folder: Path, roots: Sequence[Path]) -> Iterator[None]:
    """Beside what is done inside: it takes a tenth of a second, and no page is read before the stack is up."""
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write_catalog, folder, roots)
        yield
    written.result()


def write_catalog(folder: Path, roots: Sequence[Path]) -> None:
    """A file that is there as it is now stays; what is no longer there goes."""
    _make_folder(folder)
    entries = {one.name: one for one in list_servers(roots) if one.type == VERIFIERS}
    kept = {folder / INDEX}
    if (audits := own_root() / AUDITS).is_file():
        kept.add(_copy(audits, folder / AUDITS))
    for name, entry in entries.items():
        kept.update(_copy(path, folder / name / part) for path, part in _shown_files(entry.directory))
    _remove_others(folder, kept)
    index = CopiedCatalog({name: _facts(entry) for name, entry in entries.items()})
    write_atomically(folder / INDEX, index.model_dump_json(), mode=SHARED)


def _facts(entry: CatalogEntry) -> CopiedEnvironment:
    return CopiedEnvironment(
        domain=entry.domain,
        kind=entry.kind,
        description=entry.description,
        licence=entry.licence,
        aliases=entry.aliases,
        starts=entry.config is not None,
        strict=declares_strict(entry.directory),
        source=str(entry.directory),
    )


def _shown_files(folder: Path) -> Iterator[tuple[Path, Path]]:
    """A link out of the folder is not followed."""
    example = example_of(folder)
    for path in (*(folder / name for name in NAMED), example, *sorted((folder / "data").glob("*metrics*.json"))):
        with suppress(OSError, ValueError):
            inside = path.resolve().is_relative_to(folder.resolve())
            if inside and path.is_file() and path.stat().st_size <= MAX_FILE:
                yield path, path.relative_to(folder)


def _copy(path: Path, to: Path) -> Path:
    with suppress(OSError):
        there, here = path.stat(), to.stat() if to.is_file() else None
        if here is None or (here.st_size, here.st_mtime_ns) != (there.st_size, there.st_mtime_ns):
            _make_folder(to.parent)
            shutil.copyfile(path, to)
            os.utime(to, ns=(there.st_atime_ns, there.st_mtime_ns))
            to.chmod(SHARED)
    return to


def _make_folder(folder: Path) -> None:
    """Whatever the umask of who types the command."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir()
        folder.chmod(0o755)


def _remove_others(folder: Path, kept: set[Path]) -> None:
    for path in folder.rglob("*"):
        if path not in kept and not path.is_dir():
            path.unlink(missing_ok=True)
