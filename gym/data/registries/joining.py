"""Parts of a split as one file of JSON lines: in their order, and whole or not at all."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from gym.data.file_kinds import ZSTD, named_kind
from gym.data.line_source import open_input
from gym.data.registries.parquet import WrittenRows, need_pyarrow, write_rows
from gym.data.registries.registry_protocol import Received
from gym.data.registries.splits import PARQUET
from gym.data.whole_files import whole_file
from gym.data.zstd import need_zstd
from gym.errors import GymError, InfraError, UserError

MAX_UNPACKED, MAX_RATIO = 1 << 30, 200  # so much whatever the size of a file is, and beyond it so many times that
NO_ROWS: Final = "it has no rows"
_CHUNK: Final = 1 << 20


def need_readers(files: Iterable[str]) -> None:
    """Says what is not installed before anything large is fetched."""
    for file in files:
        if file.endswith(PARQUET):
            need_pyarrow()
        elif named_kind(file) is ZSTD:
            need_zstd(file)


def join_parts(parts: Sequence[Received], destination: Path) -> tuple[str, ...]:
    """What is to be said of the rows."""
    rows = not_finite = 0
    with whole_file(destination) as out:
        for part in parts:
            written = _write_part(part, out)
            rows += written.rows
            not_finite += written.not_finite
    lost = f"numbers that are NaN or infinite, which JSON does not have, are null: {not_finite:,}" if not_finite else ""
    return tuple(note for note in (lost, "" if rows else NO_ROWS) if note)


def copy_lines(path: Path, out: BinaryIO, name: str) -> int:
    """How many lines. A packed file may unpack to a disk full of one letter: what packs so well is refused."""
    last, lines, blank, room = b"\n", 0, True, MAX_UNPACKED + MAX_RATIO * path.stat().st_size
    for chunk in _read_chunks(path, name):
        room -= len(chunk)
        if room < 0:
            what = f"{name} unpacks to more than {MAX_RATIO} times its size: no data set packs so well"
            raise UserError(what, "look at it; to take it as it is, unpack it yourself")
        out.write(chunk)
        lines += chunk.count(b"\n")
        blank = blank and chunk.isspace()
        last = chunk[-1:]
    if last != b"\n":
        out.write(b"\n")
        lines += 1
    return 0 if blank else lines


def _write_part(part: Received, out: BinaryIO) -> WrittenRows:
    if part.path.name.endswith(PARQUET):
        return write_rows(part.path, out, part.source)
    return WrittenRows(copy_lines(part.path, out, part.source))


def _read_chunks(path: Path, name: str) -> Iterator[bytes]:
    """Without the mark that some programs put before the first line. What goes wrong with `out` passes by."""
    try:
        with open_input(str(path)) as stream:
            head = b""
            while len(head) < len(BOM_UTF8) and (chunk := stream.read(_CHUNK)):
                head += chunk
            if head := head.removeprefix(BOM_UTF8):
                yield head
            while chunk := stream.read(_CHUNK):
                yield chunk
    except Exception as error:  # noqa: BLE001 (every decompressor has error classes of its own)
        reason = "it is packed in another way than its name says" if isinstance(error, GymError) else error
        hint = "the file is damaged: name another one, or upload it again"
        raise InfraError(f"{name} cannot be read: {reason}", hint) from error
