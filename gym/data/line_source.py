"""Lines of data sets, streamed from files, globs, gzip, zstd and standard input; each knows its file and number."""

from __future__ import annotations

import difflib
import glob
import gzip
import hashlib
import io
import math
import os
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import orjson

from gym.data.file_kinds import GZIP, LONGEST_MAGIC, ZSTD, check_lines, check_packed, named_kind, open_lines
from gym.data.zstd import large_window_hint, open_zstd
from gym.errors import UserError
from gym.wire.deep_values import UNWRITABLE
from gym.wire.json_text import write_any_json

STDIN = "-"
_BUFFER = 1 << 20
_LONGEST = 256 << 20  # bytes of a line: a packed file of a few kilobytes may be one that fills the memory
_WHOLE = 64 << 20  # files up to here are digested whole; of larger ones
_FILE_ENDS = (".jsonl", ".json", ".gz", ".zst", ".parquet")  # JSON text ends otherwise
_LONGEST_END = max(map(len, _FILE_ENDS))
_NO_NUMBERS = (b"null", b"NaN", b"Infinity")  # one writer turns them into null, the other into words
_SAMPLES, _SAMPLE = 512, 64 << 10  # 32 MB, evenly spread: a start must not wait for a disk


class Line(NamedTuple):
    raw: bytes  # stripped
    file: str
    number: int


def expand_inputs(patterns: Iterable[str]) -> tuple[str, ...]:
    """Paths and globs as the files they mean, in their order; one that is not there is named with its nearest."""
    files: list[str] = []
    for pattern in patterns:
        files += _expand(pattern)
    if files.count(STDIN) > 1:
        raise UserError("standard input (-) is named twice; it can be read once")
    return tuple(files)


def read_lines(files: Iterable[str]) -> Iterator[Line]:
    """Every line that is not blank. Only the line itself is in memory."""
    for file in files:
        number = 0
        try:
            with open_input(file) as stream:
                for number, text in enumerate(iter(partial(stream.readline, _LONGEST), b""), 1):
                    if len(text) == _LONGEST:
                        raise UserError(f"{name_of(file)}:{number}: the line is longer than {_LONGEST >> 20} MB")
                    raw = (text.removeprefix(BOM_UTF8) if number == 1 else text).strip()
                    if raw:
                        yield Line(raw, name_of(file), number)
        except UserError:
            raise
        except Exception as error:  # noqa: BLE001 (every decompressor has error classes of its own)
            what = f"{name_of(file)}:{number + 1}: cannot be read: {error}"
            hint = large_window_hint(file, error) or "fetch the file again, then run the same command"
            raise UserError(what, hint) from error


def read_some_lines(files: Sequence[str]) -> Iterator[Line]:
    """As `read_lines`; that there is no line at all is an error."""
    lines = read_lines(files)
    first = next(lines, None)
    if first is None:
        raise no_rows(files)
    yield first
    yield from lines


def no_rows(files: Iterable[str]) -> UserError:
    return UserError(f"{', '.join(map(name_of, files))}: no rows", "is it the right file?")


def open_input(file: str) -> BinaryIO:
    if file == STDIN:
        # A stream of its own: a thread that still waits on sys.stdin at exit would abort the interpreter.
        stream = open(0, "rb", closefd=False)  # noqa: SIM115, PTH123 (a descriptor; the caller closes)
        check_lines(name_of(file), stream.peek(LONGEST_MAGIC), unpacked=())
        return stream
    kind = named_kind(file)
    try:
        if kind is not None and Path(file).is_file():
            with Path(file).open("rb") as begin:
                check_packed(file, kind, begin.read(LONGEST_MAGIC))
        if kind is GZIP:
            return cast(BinaryIO, io.BufferedReader(gzip.GzipFile(file, "rb"), _BUFFER))
        return open_zstd(file) if kind is ZSTD else open_lines(Path(file), _BUFFER)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror or error}", f"look: ls -l {file}") from error


def digest_inputs(files: Iterable[str]) -> str:
    """Which data set this is, wherever it lies. Standard input cannot be known before it is read."""
    total = hashlib.blake2b(digest_size=16)
    for file in files:
        if file == STDIN:
            return "stdin"
        total.update(_digest_file(Path(file)))
    return total.hexdigest()


def count_lines(files: Iterable[str], keep_going: Callable[[], bool]) -> int | None:
    """How many lines there are, blank ones included; None where only reading the data can say."""
    count = 0
    for file in files:
        if file == STDIN or named_kind(file):
            return None
        with Path(file).open("rb", buffering=0) as stream:
            last = b"\n"
            while chunk := stream.read(_BUFFER):
                if not keep_going():
                    return None
                count += chunk.count(b"\n")
                last = chunk[-1:]
            count += last != b"\n"
    return count


def row_to_line(row: object, name: str, number: int) -> Line:
    """A row in memory (a mapping, or JSON text) as if it had been read from a file."""
    if isinstance(row, Path) or isinstance(row, str) and row[-_LONGEST_END:].lower().endswith(_FILE_ENDS):
        what = f"{name}:{number}: {str(row)!r} names a file, where a row was expected"
        raise UserError(what, f"give its lines: open({str(row)!r})")
    if isinstance(row, str):
        row = row.encode()
    try:
        raw = row if isinstance(row, bytes) else _write_row(row)
    except UNWRITABLE as error:
        hint = "a row holds texts, numbers, booleans, lists and dicts; None is null"
        raise UserError(f"{name}:{number}: the row cannot be written as JSON: {error}", hint) from None
    return Line((raw.removeprefix(BOM_UTF8) if number == 1 else raw).strip(), name, number)


def is_blank(row: object) -> bool:
    """A line of a file that a program hands over, with nothing in it."""
    return isinstance(row, (str, bytes)) and (not row or row.isspace())


def _write_row(row: object) -> bytes:
    """Integers of any size, as in a file; what JSON has no number for is a `ValueError`."""
    try:
        raw = orjson.dumps(row, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError as error:
        if "64-bit" not in str(error):
            raise
        raw = write_any_json(row)
    if any(word in raw for word in _NO_NUMBERS):
        _check_numbers(row)
    return raw


def _check_numbers(row: object) -> None:
    rest = [row]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            rest.extend(one.values())
        elif isinstance(one, list | tuple):
            rest.extend(one)
        elif isinstance(one, float) and not math.isfinite(one):
            raise ValueError(f"it holds {one}, which is not a JSON number")


def _expand(pattern: str) -> list[str]:
    if pattern == STDIN or Path(pattern).is_file():
        return [pattern]
    if Path(pattern).is_dir():
        inner = "/data" if any(Path(pattern, "data").glob("*.jsonl")) else ""
        raise UserError(f"{pattern} is a folder", f"name its files: '{pattern.rstrip('/')}{inner}/*.jsonl'")
    if glob.has_magic(pattern):
        found = sorted(path for path in glob.glob(pattern, recursive=True) if Path(path).is_file())  # noqa: PTH207 (any root)
        if found:
            return found
        raise UserError(f"no file matches {pattern}", f"look: ls {Path(pattern).parent}")
    if Path(pattern).exists():
        return [pattern]  # a named pipe, as in <(command)
    folder = Path(pattern).parent
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    near = difflib.get_close_matches(Path(pattern).name, names, n=3)
    raise UserError(
        f"there is no file {pattern}", f"did you mean {' or '.join(near)}?" if near else f"look: ls {folder}"
    )


def name_of(file: str) -> str:
    return "standard input" if file == STDIN else file


def _digest_file(path: Path) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb", buffering=0) as stream:
        if not stream.seekable():
            return b"pipe"
        size = os.fstat(stream.fileno()).st_size
        digest.update(size.to_bytes(8, "big"))
        if size <= _WHOLE:
            while chunk := stream.read(_BUFFER):
                digest.update(chunk)
        else:
            for number in range(_SAMPLES):
                stream.seek((size - _SAMPLE) * number // (_SAMPLES - 1))
                digest.update(stream.read(_SAMPLE))
    return digest.digest()
