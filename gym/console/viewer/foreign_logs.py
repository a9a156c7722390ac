"""Logs of Inspect and saved results of verifiers, made readable as rollouts: converted once into the user's cache.

A file of rows beside the pages' own, and not in memory: a log may be larger than that, and the index serves it too.
What is given is never written to.
"""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from gym.console.viewer.inspect_logs import read_archive, read_json_log
from gym.console.viewer.verifiers_results import is_result, read_results
from gym.console.viewer.verifiers_traces import is_trace, read_traces
from gym.errors import UserError
from gym.files import open_atomically, write_atomically

Reader = Callable[[Path], Iterator[dict[str, Any]]]
SUFFIXES: Final = (".eval", ".json", ".jsonl")
_JSON_LOG: Final = re.compile(rb'^\s*\{\s*"version":\s*\d+,\s*"status":\s*"')
_EPISODE: Final = re.compile(rb'\s*\{"id":"[0-9a-f]{32}","env":\{')
_PEEK = 1 << 20


def find_reader(path: Path) -> Reader | None:
    """None where the file is not one of these, or cannot be read."""
    try:
        if path.suffix == ".eval":
            return read_archive if zipfile.is_zipfile(path) else None
        with path.open("rb") as stream:
            if path.suffix == ".json":
                return read_json_log if _JSON_LOG.match(stream.read(200)) else None
            return _by_line(stream.readline(_PEEK))
    except OSError:
        return None


def _by_line(line: bytes) -> Reader | None:
    """An episode of many turns is longer than what is looked at: then its first keys say what it is."""
    if is_trace(line) or _EPISODE.match(line):
        return read_traces
    return read_results if is_result(line) else None


def convert(path: Path, reader: Reader, environ: Mapping[str, str]) -> Path:
    """The file of rollouts for a log as it is now. It keeps its name when the log grows, and so do notes beside it."""
    status = path.stat()
    sign = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
    folder = _cache(environ) / hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:24]
    made, mark = folder / "rollouts.jsonl", folder / "source"
    with suppress(OSError):
        if made.is_file() and mark.read_text() == sign:
            return made
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(made, path, reader)
        write_atomically(mark, sign)
    except OSError as error:
        raise UserError(f"{path} cannot be converted into {folder}: {error.strerror}") from None
    return made


def _write(made: Path, path: Path, reader: Reader) -> None:
    try:
        with open_atomically(made) as stream:
            for row in reader(path):
                stream.write(orjson.dumps(row, default=str, option=orjson.OPT_NON_STR_KEYS) + b"\n")
    except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, NotImplementedError) as error:
        raise UserError(f"{path} cannot be read as a log: {error}") from None


def _cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "compose-gym" / "logs"
