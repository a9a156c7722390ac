"""What a file is by its first bytes: a packed one, a table or a list is named before it is taken for rows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from gym.errors import UserError


class Kind(NamedTuple):
    """A kind of file that holds no lines as it is."""

    name: str
    suffixes: tuple[str, ...]  # the usual one first
    magic: bytes
    unpack: str = ""  # the command that makes lines of it


GZIP: Final = Kind("gzip", (".gz",), b"\x1f\x8b", "gunzip -k")
ZSTD: Final = Kind("zstd", (".zst", ".zstd"), b"\x28\xb5\x2f\xfd", "zstd -d")
UNPACKED: Final = (GZIP, ZSTD)  # while they are read, where the file's name says what they are
PACKED: Final = (
    *UNPACKED,
    Kind("bzip2", (".bz2",), b"BZh", "bunzip2 -k"),
    Kind("xz", (".xz",), b"\xfd7zXZ\x00", "unxz -k"),
    Kind("zip", (".zip",), b"PK\x03\x04", "unzip"),
)
ALL: Final = (
    *PACKED,
    Kind("parquet", (".parquet",), b"PAR1"),
    Kind("arrow", (".arrow",), b"ARROW1\x00\x00"),
    Kind("arrow", (".arrow",), b"\xff\xff\xff\xff"),  # a stream, as `datasets` keeps it
)
TEXT_TABLES: Final = (".csv", ".tsv")
LONGEST_MAGIC: Final = 8
_LIST: Final = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*[{\n]")  # of objects, or written over several lines


def named_kind(file: str, kinds: Iterable[Kind] = UNPACKED) -> Kind | None:
    """The kind that a file's name says; by default of those that are unpacked while they are read."""
    return next((kind for kind in kinds if file.endswith(kind.suffixes)), None)


def packed_suffix(file: str, kinds: Iterable[Kind] = UNPACKED) -> str:
    """What a file's name ends in that says so; "" where it says none of them."""
    return next((suffix for kind in kinds for suffix in kind.suffixes if file.endswith(suffix)), "")


def check_lines(file: str, head: bytes, *, unpacked: Collection[Kind] = UNPACKED) -> None:
    """`head` is how a file begins that is read as lines; `unpacked` are the kinds that are read under their names."""
    kind = next((one for one in ALL if head.startswith(one.magic)), None)
    if kind is None:
        if _LIST.match(head):
            raise _no_lines(file, "a list in JSON")
        if head and file.lower().endswith(TEXT_TABLES) and not head.lstrip().startswith(b"{"):
            raise _no_lines(file, "a table")
        return
    if kind in unpacked:
        raise UserError(
            f"{file} is packed by {kind.name}, which its name does not say",
            f"let its name end in {kind.suffixes[0]}, or unpack it",
        )
    if kind.unpack:
        raise UserError(f"{file} is packed by {kind.name}, which is not read here", f"{kind.unpack} {file}")
    raise _no_lines(file, f"a file of {kind.name}")


def _no_lines(file: str, what: str) -> UserError:
    given = shlex.quote(file) if file != "standard input" else "FILE"
    return UserError(f"{file} is {what}; rows are read from JSON lines", f"gym data from {given} -o rows.jsonl")


def open_lines(path: Path, buffering: int, *, unpacked: Collection[Kind] = UNPACKED) -> BinaryIO:
    with ExitStack() as stack:
        stream = cast(BufferedReader, stack.enter_context(path.open("rb", buffering=buffering)))
        check_lines(str(path), stream.peek(LONGEST_MAGIC), unpacked=unpacked)
        stack.pop_all()
        return stream


def check_packed(file: str, kind: Kind, head: bytes) -> None:
    if head.lstrip().startswith(b"{"):
        raise UserError(
            f"{file} is named as a file that {kind.name} packed, and holds plain lines",
            f"let its name not end in {' or '.join(kind.suffixes)}",
        )


def check_kept_name(there: str, here: str) -> None:
    """A file of a registry keeps its kind under the name that it gets here."""
    kind = named_kind(there, ALL)
    if kind is named_kind(here, ALL):
        return
    suffix = kind.suffixes[0] if kind else ".jsonl"
    raise UserError(
        f"{there} would be kept as {here}, whose name says another kind of file",
        f"let it end in {suffix}, or fetch it as a split, which is written as JSON lines",
    )
